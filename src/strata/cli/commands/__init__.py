"""One module for each command; `strata.cli.main` loads the one that is called."""
