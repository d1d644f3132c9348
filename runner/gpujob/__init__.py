"""gpujob: fine-tune on a rented GPU overnight, interrupted = uninterrupted."""

__version__ = "0.1.0"
