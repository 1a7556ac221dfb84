"""What trains: losses, networks, the training loop and its guard."""
