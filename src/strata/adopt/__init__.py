"""Imports objects that exist in the project of an existing cloud into the site's Pulumi state."""
