"""Additions to zero-to-jupyterhub's configuration of the hub."""
