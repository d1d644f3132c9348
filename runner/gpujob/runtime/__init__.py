"""How the agent starts on a machine."""
