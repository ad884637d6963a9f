"""What is looked at in a running program."""
