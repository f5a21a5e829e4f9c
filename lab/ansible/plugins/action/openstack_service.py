"""Notes for `strata status` which files and units the module openstack_service is asked for, then runs it."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from strata.drift.baseline import ManagedUnit, note, wanted_file


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible ships no types
    """Runs on the controller, where the arguments are known although the task hides its result."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Runs the module; its result is passed on unchanged."""
        super().run(tmp, task_vars)
        result: dict[str, Any] = self._execute_module(task_vars=task_vars)
        if not result.get("failed") and not self._task.check_mode:
            arguments = self._task.args
            files = {f["path"]: wanted_file(f) for f in arguments["files"]}
            units = {name: ManagedUnit(active=True, enabled=True) for name in arguments.get("units", [])}
            note(task_vars["inventory_hostname"], files=files, units=units)
        return result
