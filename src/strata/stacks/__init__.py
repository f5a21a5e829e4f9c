"""Runs the Pulumi programs, and reads what they leave: events, state, locks."""
