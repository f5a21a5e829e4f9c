"""Measures how long things take; `scripts/bench` is its command line."""
