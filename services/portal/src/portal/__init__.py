"""The front page of a site."""
