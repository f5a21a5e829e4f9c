"""Sends a host the binaries that are missing there, compressed, and notes them for `strata status`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from strata.drift.baseline import ManagedFile, note
from strata.errors import UserError
from strata.toolchain.packed import packed

DIRECTORY = "/usr/local/bin"


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible ships no types
    """Asks the module first, so that a host which has all of it is sent nothing."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Runs the module once or twice.

        Raises:
            AnsibleActionFail: a binary cannot be read or compressed here.
        """
        super().run(tmp, task_vars)
        try:
            sources = {name: packed(Path(file)) for name, file in self._task.args["binaries"].items()}
        except UserError as error:
            raise AnsibleActionFail(str(error)) from error
        binaries = {name: {"sha256": digest} for name, (_, digest) in sources.items()}
        result = self._module(binaries, task_vars)
        if result.get("failed") or self._task.check_mode:
            return result
        if result["lacking"]:
            directory = self._make_tmp_path()
            try:
                for name in result["lacking"]:
                    place = self._connection._shell.join_path(directory, f"{name}.gz")
                    binaries[name]["packed"] = self._transfer_file(str(sources[name][0]), place)
                sent = {name: binaries[name] for name in result["lacking"]}
                self._fixup_perms2([directory, *(binary["packed"] for binary in sent.values())])
                second = self._module(sent, task_vars)
            finally:
                self._remove_tmp_path(directory)
            if second.get("failed"):
                kept = ", ".join(str(sources[name][0]) for name in sent)
                return second | {"msg": f"{second.get('msg')} (if what was sent is broken, remove {kept})"}
            result = second | {"binaries": result["binaries"] + second["binaries"]}
        self._note(binaries, task_vars)
        return result

    def _module(self, binaries: dict[str, dict[str, str]], task_vars: Any) -> dict[str, Any]:
        arguments = self._task.args | {"binaries": binaries}
        result: dict[str, Any] = self._execute_module(module_args=arguments, task_vars=task_vars)
        return result

    def _note(self, binaries: dict[str, dict[str, str]], task_vars: Any) -> None:
        directory = Path(self._task.args.get("directory", DIRECTORY))
        files = {
            str(directory / name): ManagedFile(
                digest=f"sha256:{binary['sha256']}", mode="0755", owner="root", group="root"
            )
            for name, binary in binaries.items()
        }
        note(self._task.delegate_to or task_vars["inventory_hostname"], files=files)
