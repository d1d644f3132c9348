"""What a person looks at afterwards: the loss curve."""
