"""One file per verb, loaded when it is called; the table of all of them is cli/main.py's."""
