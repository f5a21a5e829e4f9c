"""Folders that `strata new-…` writes; each template works as it is."""
