"""example-service."""
