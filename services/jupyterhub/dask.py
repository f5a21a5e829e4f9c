"""The parts of the chart's values that a site with Dask clusters has; without them, all are empty."""

from __future__ import annotations

from strata.catalogue.needs.dask_clusters import DaskServer
from strata.catalogue.service import Values

SERVER_SCOPES = ("users:activity!user", "access:servers!server")
"""JupyterHub's own of the role `server`, which the token of each server has."""


def services(dask: DaskServer | None) -> Values:
    """The gateway, for its token only: what clusters serve has no place on the hub's host (decision 68)."""
    return {dask.name: {}} if dask else {}


def roles(dask: DaskServer | None) -> Values:
    """Users' servers may start clusters; the gateway sees which servers run."""
    if dask is None:
        return {}
    access = f"access:services!service={dask.name}"
    return {
        "user": {"scopes": ["self", access]},
        "server": {"scopes": [*SERVER_SCOPES, access]},
        dask.name: {"services": [dask.name], "scopes": ["read:users:name", "read:servers"]},
    }


def server_environment(dask: DaskServer | None) -> dict[str, str]:
    """Settings of the client, so that `Gateway()` needs no arguments; the hub adds image and tenant to each pod."""
    if dask is None:
        return {}
    return {
        "DASK_GATEWAY__ADDRESS": dask.url,
        "DASK_GATEWAY__PUBLIC_ADDRESS": dask.public_url,
        "DASK_GATEWAY__PROXY_ADDRESS": dask.url.replace("http://", "gateway://"),
        "DASK_GATEWAY__AUTH__TYPE": "jupyterhub",
    }


def egress(dask: DaskServer | None) -> list[Values]:
    """From users' servers."""
    return [{"to": [dict(dask.pods)], "ports": [{"port": dask.port, "protocol": "TCP"}]}] if dask else []


def hub_ingress(dask: DaskServer | None, port: int) -> list[Values]:
    """From the gateway to the hub's API."""
    return [{"from": [dict(dask.pods)], "ports": [{"port": port, "protocol": "TCP"}]}] if dask else []
