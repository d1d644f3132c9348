"""A connection to a machine: run, put, get, follow."""
