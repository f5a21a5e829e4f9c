#!/usr/bin/python
"""Ansible module: pinned binaries, unpacked on the host, where copying them whole costs seconds for each host."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: strata_binaries
short_description: Has pinned binaries on a host
description:
  - A binary that the host has not, or has with other content, is sent compressed and unpacked there.
  - Binaries are replaced in one step, so no partial binary starts; root owns them, all users may run them.
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
CHUNK = 1 << 17


def unpack(packed: Path, path: Path, sha256: str) -> str | None:
    """Puts the content of a file in gzip's format in the place of `path`, or returns what is wrong with it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".strata-")
    temporary = Path(name)
    try:
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        digest = hashlib.sha256()
        with packed.open("rb") as source, os.fdopen(descriptor, "wb") as target:
            while chunk := source.read(CHUNK):
                content = unpacker.decompress(chunk)
                digest.update(content)
                target.write(content)
        if not unpacker.eof:
            return "what was sent ends too early"
        if digest.hexdigest() != sha256:
            return f"what was sent has the SHA-256 {digest.hexdigest()}, not {sha256}"
        temporary.chmod(MODE)
        os.chown(temporary, 0, 0)
        temporary.replace(path)
    except zlib.error as error:
        return f"what was sent cannot be unpacked: {error}"
    finally:
        temporary.unlink(missing_ok=True)
    return None


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
            if wrong := unpack(Path(binary["packed"]), path, binary["sha256"]):
                module.fail_json(msg=f"{path}: {wrong}")
            changed.append(name)
        elif module.sha256(str(path)) != binary["sha256"]:
            lacking.append(name)
        else:
            arguments: dict[str, Any] = {"path": str(path), "mode": f"{MODE:04o}", "owner": "root", "group": "root"}
            file_arguments = module.load_file_common_arguments(arguments)
            if module.set_fs_attributes_if_different(file_arguments, changed=False):
                changed.append(name)
    module.exit_json(changed=bool(changed or lacking), binaries=changed, lacking=lacking)


if __name__ == "__main__":
    main()
