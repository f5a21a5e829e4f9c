#!/usr/bin/python3
"""Ansible module: the files and units of one OpenStack service, in one call."""

from __future__ import annotations

import grp
import os
import pwd
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: openstack_service
short_description: Files and systemd units of one OpenStack service
description:
  - Writes the given files where their content, owner or mode differs, reloads systemd where a unit changed,
    enables the units and starts those that do not run, without waiting for them.
  - One call per service instead of one per file, because each call costs half a second.
  - Units that run already and whose files changed come back as C(restart), for a handler.
options:
  user:
    description: System user that is made where it is missing.
    type: str
  files:
    description: Files to write; C(units) names those that must be restarted when the file changes.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Where it goes., type: path, required: true}
      content: {description: Its text., type: str, required: true}
      group: {description: Its group; its owner is root., type: str, default: root}
      mode: {description: Octal mode., type: str, default: "0644"}
      units: {description: Units that read it., type: list, elements: str, default: []}
  units:
    description: Units to enable and start.
    type: list
    elements: str
    default: []
  absent:
    description: Units of earlier releases, which are stopped, disabled and removed.
    type: list
    elements: str
    default: []
"""

RETURN = r"""
restart:
  description: Running units whose files changed.
  type: list
changed_files:
  description: Paths that were written.
  type: list
removed:
  description: Units that were removed.
  type: list
"""

UNIT_DIRECTORY = Path("/etc/systemd/system")
FILE_OPTIONS = {
    "path": {"type": "path", "required": True},
    "content": {"type": "str", "required": True, "no_log": True},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "str", "default": "0644"},
    "units": {"type": "list", "elements": "str", "default": []},
}


def ensure_user(module: AnsibleModule, name: str) -> bool:
    """Makes a system user with its home in /var/lib."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        if not module.check_mode:
            command = ["useradd", "--system", "--user-group", "--home-dir", f"/var/lib/{name}", "--shell"]
            module.run_command([*command, "/usr/sbin/nologin", name], check_rc=True)
        return True
    return False


def differs(file: Path, content: bytes, group: int, mode: int) -> bool:
    """Whether the file must be written."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return True
    same = (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (0, group, mode)
    return not same or file.read_bytes() != content


def write(file: Path, content: bytes, group: int, mode: int) -> None:
    """Writes atomically; no one can read the content before owner and mode are right."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchown(stream.fileno(), 0, group)
            os.fchmod(stream.fileno(), mode)
            stream.write(content)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def unit_states(module: AnsibleModule, units: list[str]) -> dict[str, dict[str, str]]:
    """Properties of each unit that decide what is to be done."""
    if not units:
        return {}
    names = "ActiveState,UnitFileState,Job,ConditionResult,ConditionTimestampMonotonic"
    _, out, _ = module.run_command(["systemctl", "show", f"--property={names}", *units], check_rc=True)
    states = [dict(line.split("=", 1) for line in block.splitlines()) for block in out.strip().split("\n\n")]
    return dict(zip(units, states, strict=True))


def must_start(state: dict[str, str], changed: bool) -> bool:
    """Whether a unit is to be started: it does not run, and its condition does not exempt it."""
    # a unit with a job waits for others, as all do while the machine boots
    if state["ActiveState"] in ("active", "activating", "reloading") or state.get("Job") not in (None, "", "0"):
        return False
    skipped = state["ConditionResult"] == "no" and state["ConditionTimestampMonotonic"] != "0"
    return changed or not skipped


def remove(module: AnsibleModule, units: list[str]) -> list[str]:
    """Ends and removes those of the units that are there; returns their names."""
    existing = [unit for unit in units if (UNIT_DIRECTORY / unit).exists()]
    if existing and not module.check_mode:
        module.run_command(["systemctl", "disable", "--quiet", "--now", *existing], check_rc=True)
        for unit in existing:
            (UNIT_DIRECTORY / unit).unlink()
    return existing


def main() -> None:
    """Runs the module."""
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str"},
            "files": {"type": "list", "elements": "dict", "required": True, "options": FILE_OPTIONS},
            "units": {"type": "list", "elements": "str", "default": []},
            "absent": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    changed = bool(module.params["user"]) and ensure_user(module, module.params["user"])
    written: list[str] = []
    readers: list[str] = []
    for entry in module.params["files"]:
        file, content = Path(entry["path"]), entry["content"].encode()
        try:
            group = grp.getgrnam(entry["group"]).gr_gid
        except KeyError:
            if not module.check_mode:
                module.fail_json(msg=f"{file}: there is no group {entry['group']}")
            group = 0
        mode = int(entry["mode"], 8)
        if differs(file, content, group, mode):
            if not module.check_mode:
                write(file, content, group, mode)
            written.append(str(file))
            readers += entry["units"]

    removed = remove(module, module.params["absent"])
    units: list[str] = module.params["units"]
    states = unit_states(module, list(dict.fromkeys([*units, *readers])))
    to_enable = [u for u in units if states[u]["UnitFileState"] not in ("enabled", "static")]
    to_start = [u for u in units if must_start(states[u], u in readers)]
    if not module.check_mode:
        if removed or any(Path(f).is_relative_to(UNIT_DIRECTORY) for f in written):
            module.run_command(["systemctl", "daemon-reload"], check_rc=True)
        if to_enable:
            module.run_command(["systemctl", "enable", "--quiet", *to_enable], check_rc=True)
        if to_start:
            # a unit that failed too often would refuse to start
            module.run_command(["systemctl", "reset-failed", *to_start])
            module.run_command(["systemctl", "start", "--no-block", *to_start], check_rc=True)
    restart = [u for u in dict.fromkeys(readers) if states[u]["ActiveState"] in ("active", "activating")]
    result: dict[str, Any] = {"changed_files": written, "restart": restart, "started": to_start, "enabled": to_enable}
    done = changed or removed or written or to_enable or to_start
    module.exit_json(changed=bool(done), removed=removed, **result)


if __name__ == "__main__":
    main()
