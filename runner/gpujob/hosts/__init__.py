"""Where a machine comes from."""
