"""Runners of the tools that reach a site: ssh, kubectl, helm, podman, HTTPS."""
