"""Fixtures of all tests; those of the running site come from the verify plugin."""

pytest_plugins = ["strata.verify.plugin"]
