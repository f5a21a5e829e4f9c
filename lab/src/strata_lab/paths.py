"""Where the lab's own files are."""

from __future__ import annotations

from strata.site.paths import REPOSITORY

LAB = REPOSITORY / "lab"
PLAYBOOKS = LAB / "ansible" / "playbooks"
ROLES = LAB / "ansible" / "roles"
NVIDIA = LAB / "nvidia"
