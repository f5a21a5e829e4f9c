#!/usr/bin/python
"""Ansible module: many small files in one step, where a task per file would cost a connection each."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: strata_files
short_description: Writes many small files in one step
description:
  - Each file gets the given content and mode; missing parent directories are made.
  - Files are replaced in one step, so no reader sees half of one.
options:
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Where., type: path, required: true}
      content: {description: Text of the file., type: str, required: true}
      mode: {description: Octal., type: str, default: "0644"}
  directory_mode:
    description: Octal mode of the parent directories that are missing.
    type: str
    default: "0755"
attributes:
  check_mode: {support: full}
  diff_mode: {support: full}
"""

RETURN = """
files:
  description: Paths that were written or whose mode was changed.
  type: list
  elements: str
  returned: always
"""


def read(path: Path) -> tuple[bytes, int] | None:
    """Content and mode of a file, None where there is none."""
    try:
        return path.read_bytes(), path.stat().st_mode & 0o7777
    except FileNotFoundError:
        return None


def write(path: Path, content: bytes, mode: int, directory_mode: int) -> None:
    """Replaces a file in one step."""
    missing = [parent for parent in path.parents if not parent.is_dir()]
    for parent in reversed(missing):
        parent.mkdir()
        parent.chmod(directory_mode)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".strata-")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise


def main() -> None:
    """Runs on the host."""
    suboptions = {
        "path": {"type": "path", "required": True},
        # no_log of the task hides contents; here they are needed for --diff
        "content": {"type": "str", "required": True},
        "mode": {"type": "str", "default": "0644"},
    }
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "required": True, "options": suboptions},
            "directory_mode": {"type": "str", "default": "0755"},
        },
        supports_check_mode=True,
    )
    changed: list[str] = []
    differences: list[dict[str, Any]] = []
    for file in module.params["files"]:
        path, content, mode = Path(file["path"]), file["content"].encode(), int(file["mode"], 8)
        before = read(path)
        if before == (content, mode):
            continue
        changed.append(str(path))
        text = before[0].decode(errors="replace") if before else ""
        header = {"before_header": str(path), "after_header": str(path)}
        differences.append({**header, "before": text, "after": file["content"]})
        if module.check_mode:
            continue
        if before is not None and before[0] == content:
            path.chmod(mode)
        else:
            write(path, content, mode, int(module.params["directory_mode"], 8))
    module.exit_json(changed=bool(changed), files=changed, diff=differences if module._diff else [])


if __name__ == "__main__":
    main()
