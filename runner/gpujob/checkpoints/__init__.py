"""What survives a rental: the head, the lease, and checkpoints that exist only when their manifest does."""
