"""Object storage: one Protocol, several implementations, retry as a wrapper."""
