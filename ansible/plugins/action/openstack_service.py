"""Notes for `strata status` which files and units the module openstack_service is asked for, then runs it."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from strata.drift.manifest import ManagedFile, ManagedUnit, content_digest, note


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible ships no types
    """Runs on the controller, where the arguments are known although the task hides its result."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Runs the module; its result is passed on unchanged."""
        super().run(tmp, task_vars)
        result: dict[str, Any] = self._execute_module(task_vars=task_vars)
        if not result.get("failed") and not self._task.check_mode:
            arguments = self._task.args
            files = {f["path"]: wanted(f) for f in arguments["files"]}
            units = {name: ManagedUnit(active=True, enabled=True) for name in arguments.get("units", [])}
            note(task_vars["inventory_hostname"], files=files, units=units)
        return result


def wanted(file: dict[str, Any]) -> ManagedFile:
    """What the module's option `files` says of one file."""
    mode = f"{int(file.get('mode', '0644'), 8):04o}"
    return ManagedFile(digest=content_digest(file["content"]), mode=mode, owner="root", group=file.get("group", "root"))
