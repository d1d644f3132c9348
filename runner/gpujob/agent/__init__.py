"""The side that runs on the rented machine: one agent, one attempt."""
