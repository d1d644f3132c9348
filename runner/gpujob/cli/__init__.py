"""The command line: one small file per verb, one table of exit codes, one live view."""
