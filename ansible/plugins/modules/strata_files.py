#!/usr/bin/python
"""Ansible module: many small files in one step, where a task per file would cost a connection each."""

from __future__ import annotations

import grp
import os
import pwd
import tempfile
from dataclasses import dataclass
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
      owner: {description: User it belongs to; the one that runs the module., type: str}
      group: {description: Group it belongs to; that of the user that runs the module., type: str}
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
  description: Paths that were written or whose mode or owner was changed.
  type: list
  elements: str
  returned: always
"""


@dataclass(frozen=True)
class FileState:
    """Content, mode and owner of a file."""

    content: bytes
    mode: int
    user: int
    group: int


def read(path: Path) -> FileState | None:
    """A file as it is, None where there is none."""
    try:
        status = path.stat()
        return FileState(path.read_bytes(), status.st_mode & 0o7777, status.st_uid, status.st_gid)
    except FileNotFoundError:
        return None


def write(path: Path, desired: FileState, directory_mode: int) -> None:
    """Replaces a file in one step; parent directories that it makes get the file's group."""
    missing = [parent for parent in path.parents if not parent.is_dir()]
    for parent in reversed(missing):
        parent.mkdir()
        os.chown(parent, -1, desired.group)
        parent.chmod(directory_mode)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".strata-")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(desired.content)
        os.chown(temporary, desired.user, desired.group)
        temporary.chmod(desired.mode)
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
        "owner": {"type": "str"},
        "group": {"type": "str"},
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
        path = Path(file["path"])
        try:
            user = pwd.getpwnam(file["owner"]).pw_uid if file["owner"] else os.geteuid()
            group = grp.getgrnam(file["group"]).gr_gid if file["group"] else os.getegid()
        except KeyError as error:
            module.fail_json(msg=f"{path}: {error.args[0]}")
        desired = FileState(file["content"].encode(), int(file["mode"], 8), user, group)
        before = read(path)
        if before == desired:
            continue
        changed.append(str(path))
        text = before.content.decode(errors="replace") if before else ""
        header = {"before_header": str(path), "after_header": str(path)}
        differences.append({**header, "before": text, "after": file["content"]})
        if module.check_mode:
            continue
        write(path, desired, int(module.params["directory_mode"], 8))
    module.exit_json(changed=bool(changed), files=changed, diff=differences if module._diff else [])


if __name__ == "__main__":
    main()
