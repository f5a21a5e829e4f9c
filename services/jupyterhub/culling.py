"""The parts of the chart's values that stop idle servers and warn their users."""

from __future__ import annotations

from strata.catalogue.service import Values
from strata_services.jupyterhub.settings import Culling

MOST_REPORT_SECONDS = 60
CONFIG = """\
from strata_hub import culling
c.JupyterHub.proxy_class = culling.QuietProxy
if get_config("cull.enabled"):
    c.JupyterHub.extra_handlers += culling.handlers(get_config("cull.timeout"), get_config("cull.maxAge"))
"""
"""Python behind the rest of the hub's configuration."""


def values(culling: Culling) -> Values:
    """The chart's `cull`."""
    return {
        "enabled": True,
        "timeout": culling.idle_seconds,
        "every": culling.check_seconds,
        "maxAge": culling.maximum_age_seconds or 0,
    }


def server_environment(culling: Culling) -> dict[str, str]:
    """How often servers report activity, in seconds: the hub's default, 300, would cull active ones after a short idle
    time, and others minutes early."""
    return {"JUPYTERHUB_ACTIVITY_INTERVAL": str(max(1, min(MOST_REPORT_SECONDS, culling.idle_seconds // 4)))}


def announcement(culling: Culling) -> str:
    """On all pages of the hub: when servers are stopped."""
    text = f"Your server stops after {_time(culling.idle_seconds)} without activity"
    if culling.maximum_age_seconds is not None:
        text += f", and {_time(culling.maximum_age_seconds)} after its start"
    return f"{text}. Files in your home stay."


def _time(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"
