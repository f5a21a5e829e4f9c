"""One site: its paths, outputs, secrets and the data it must not lose."""
