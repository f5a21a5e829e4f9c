"""Ansible's cache of facts, with those of hosts that nothing connects to: one JSON file each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.plugins.cache.memory import CacheModule as Memory

DOCUMENTATION = """
name: site_facts
short_description: facts from files
description: One JSON file per host in the folder that ANSIBLE_CACHE_PLUGIN_CONNECTION names.
"""


class CacheModule(Memory):  # type: ignore[misc]  # Ansible has no types
    """Serves the facts; what is gathered stays in memory."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        folder = Path(constants.config.get_config_value("CACHE_PLUGIN_CONNECTION"))
        self._cache = {file.name: json.loads(file.read_text()) for file in folder.iterdir()}
