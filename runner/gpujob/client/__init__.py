"""The side that may sleep: it plans, starts, watches and releases; the job itself needs it for none of its work."""
