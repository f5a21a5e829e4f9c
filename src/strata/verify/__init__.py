"""Verifies a running site from the outside: each check is one claim."""
