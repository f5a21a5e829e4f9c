"""Dask Gateway for JupyterHub's users: clusters in their tenants' namespaces, which end with their servers."""
