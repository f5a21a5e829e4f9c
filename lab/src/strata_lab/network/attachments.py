"""Which interface of the host belongs to which port, from the records that podman's network plugins keep."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NETWORK_LABEL = "strata.neutron_network"
"""Label of a podman network that carries one of neutron's, set by nova's lab driver."""


@dataclass(frozen=True, order=True)
class Attachment:
    """One interface of an instance.

    Args:
        network_id: neutron's network.
        bridge: the network's bridge on the host.
        interface: the host's end of the pair.
        address: as neutron's port has it.
    """

    network_id: str
    bridge: str
    interface: str
    address: str


def attachments(directory: Path, site: str) -> list[Attachment]:
    """The interfaces of a site's instances.

    An instance cannot change these records, unlike its own MAC and IP address.

    Args:
        directory: of the plugins' results, a file per interface.
        site: others' are left out.
    """
    result = []
    for file in directory.iterdir() if directory.is_dir() else ():
        try:
            attachment = _read(json.loads(file.read_text()), site)
        except (OSError, ValueError, LookupError):
            # partially written or gone: the directory changes again when it is complete
            continue
        if attachment is not None:
            result.append(attachment)
    return sorted(result)


def _read(record: dict[str, Any], site: str) -> Attachment | None:
    labels = json.loads(base64.b64decode(record["config"])).get("args", {}).get("podman_labels") or {}
    if labels.get("strata.site") != site or NETWORK_LABEL not in labels:
        return None
    bridge, interface = (entry["name"] for entry in record["result"]["interfaces"][:2])
    address = record["result"]["ips"][0]["address"].partition("/")[0]
    return Attachment(labels[NETWORK_LABEL], bridge, interface, address)
