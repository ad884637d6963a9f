"""What runs inside the training loop."""
