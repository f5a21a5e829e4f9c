"""The HTTP routes, one module per kind."""
