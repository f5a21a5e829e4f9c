"""What of a running site is no longer as `up` left it."""
