"""Where the ports of a pod are reached."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import RowMapping

from pods import status
from pods.spec import DEFAULT, Networking, PodSpec, label


@dataclass(frozen=True)
class Address:
    """Of one port.

    Args:
        key: of `networking`.
        protocol: of `networking`.
        name: DNS name; of a port without one, the Service inside of the tenant.
        port: that the container listens on.
        login: whether only members who log in are let in.
        opens: whether a browser can open the name now.
    """

    key: str
    protocol: str
    name: str
    port: int
    login: bool
    opens: bool

    @property
    def url(self) -> str:
        """Of an http port."""
        return f"https://{self.name}/"


def addresses(row: RowMapping, domain: str) -> list[Address]:
    """Of a pod's present run, or of its next one; the default first.

    Args:
        row: of the pod.
        domain: that names of pods end with.
    """
    spec = PodSpec.model_validate(row["run_spec"] or row["spec"])
    running = row["status"] == status.AVAILABLE and row["status_requested"] == "ON"
    listed = [_address(row["pod_id"], key, entry, domain, running=running) for key, entry in spec.networking.items()]
    return sorted(listed, key=lambda address: (address.key != DEFAULT, address.key))


def _address(pod_id: str, key: str, entry: Networking, domain: str, *, running: bool) -> Address:
    name = f"{label(pod_id, key)}.{domain}" if entry.published else f"pods-{pod_id}"
    opens = running and entry.protocol == "http"
    return Address(key, entry.protocol, name, entry.port, entry.tapis_auth, opens)
