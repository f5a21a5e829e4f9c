"""Containers of the node image that tests start by themselves."""

BOOTED = "until systemctl is-system-running | grep -qE 'running|degraded'; do sleep 0.2; done"
"""Shell command in such a container that ends once systemd has started everything."""
