#!/usr/bin/python
"""Ansible module: pinned binaries, unpacked on the host, where copying them whole costs seconds for each host."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: strata_binaries
short_description: Has pinned binaries on a host
description:
  - A binary that the host has not, or has with other content, is sent compressed and unpacked there by zstd.
  - Binaries are replaced in one step, so nobody starts half of one; root owns them and everybody may run them.
options:
  binaries:
    description:
      - Name on the host to file on the machine that runs Ansible.
      - The action plugin gives the module C(sha256) in its place, and as C(packed) the compressed file that it sent.
    type: dict
    required: true
  directory:
    description: Where on the host.
    type: path
    default: /usr/local/bin
attributes:
  check_mode: {support: full}
"""

RETURN = """
binaries:
  description: Names of those whose content, mode or owner was changed.
  type: list
  elements: str
  returned: always
lacking:
  description: Names of those that must be sent.
  type: list
  elements: str
  returned: always
"""

MODE = 0o755
CHUNK = 1 << 20


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file, None where there is none."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
    except FileNotFoundError:
        return None
    return digest.hexdigest()


def unpack(module: AnsibleModule, packed: str, path: Path, sha256: str) -> None:
    """Puts the content of a compressed file in the place of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".strata-")
    os.close(descriptor)
    temporary = Path(name)
    try:
        module.run_command(
            [module.get_bin_path("zstd", required=True), "-d", "-q", "-f", packed, "-o", name], check_rc=True
        )
        found = digest_of(temporary)
        if found != sha256:
            module.fail_json(msg=f"{path}: what was sent has the SHA-256 {found}, not {sha256}")
        temporary.chmod(MODE)
        os.chown(temporary, 0, 0)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def main() -> None:
    """Runs on the host."""
    module = AnsibleModule(
        argument_spec={
            "binaries": {"type": "dict", "required": True},
            "directory": {"type": "path", "default": "/usr/local/bin"},
        },
        supports_check_mode=True,
    )
    changed: list[str] = []
    lacking: list[str] = []
    for name, binary in module.params["binaries"].items():
        path = Path(module.params["directory"], name)
        if "packed" in binary:
            unpack(module, binary["packed"], path, binary["sha256"])
            changed.append(name)
        elif digest_of(path) != binary["sha256"]:
            lacking.append(name)
        else:
            arguments: dict[str, Any] = {"path": str(path), "mode": f"{MODE:04o}", "owner": "root", "group": "root"}
            wanted = module.load_file_common_arguments(arguments)
            if module.set_fs_attributes_if_different(wanted, changed=False):
                changed.append(name)
    module.exit_json(changed=bool(changed or lacking), binaries=changed, lacking=lacking)


if __name__ == "__main__":
    main()
