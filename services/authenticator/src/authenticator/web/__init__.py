"""Pages for personal access tokens."""
