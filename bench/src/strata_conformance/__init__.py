"""Kubernetes' own end-to-end tests, built here and run on a site's cluster."""
