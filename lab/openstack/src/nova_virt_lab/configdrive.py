"""nova's config drive, as files where cloud-init looks before it looks for a disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova.api.metadata import base
from nova.virt import configdrive

DIRECTORY = "var/lib/cloud/seed/config_drive"
"""cloud-init's seed directory of the data source ConfigDrive, relative to the instance's root."""


def files(instance: Any, network_info: Any, injected_files: Mapping[str, Any]) -> dict[str, bytes]:
    """What nova puts on an instance's config drive: path below DIRECTORY → content.

    Args:
        instance: nova's.
        network_info: its ports.
        injected_files: the API's personality, path to content.

    Returns:
        Nothing where neither request, image nor configuration wants a config drive.
    """
    if not configdrive.required_by(instance):
        return {}
    metadata = base.InstanceMetadata(instance, content=list(injected_files.items()), network_info=network_info)
    return {
        path: content.encode() if isinstance(content, str) else bytes(content)
        for path, content in metadata.metadata_for_config_drive()
    }
