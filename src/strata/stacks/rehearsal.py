"""An import that is tried on a copy of the cloud's stack, and then taken as a whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from strata.progress import Progress
from strata.site.context import SiteContext
from strata.stacks.events import urn_name
from strata.stacks.pulumi import Run


@dataclass(frozen=True)
class Creation:
    """A resource that the program has and the state does not.

    Args:
        type: Pulumi's.
        name: in the program.
        inputs: what it would be created with; what depends on other resources is a placeholder.
    """

    type: str
    name: str
    inputs: Mapping[str, Any] = field(default_factory=dict)


class Rehearsal:
    """A copy of a stack.

    Args:
        run: pulumi on the real stack.
        directory: for the copy.
    """

    def __init__(self, run: Run, directory: Path) -> None:
        self.taken = False
        """Whether the copy's state has become the real stack's."""
        self._run = run
        self._directory = directory
        self._file = directory / "import.json"
        self._real = dict(run.environment)
        shutil.copytree(run.paths.pulumi, directory / "copy")
        self._copy = self._real | {"PULUMI_BACKEND_URL": f"file://{directory / 'copy'}"}
        run.environment = self._copy

    def creations(self) -> list[Creation]:
        """Returns what the program would create; components and providers are left out."""
        events, _ = self._run.operate("preview", "--import-file", str(self._file))
        return [
            Creation(step["type"], urn_name(step["urn"]), (step.get("new") or {}).get("inputs") or {})
            for step in events.planned
            if step["op"] == "create"
        ]

    def import_objects(self, ids: Mapping[tuple[str, str], str]) -> None:
        """Imports objects into the copy.

        Args:
            ids: type and name of a resource to the id of its object.

        Raises:
            UserError: an object cannot be read.
        """
        content = json.loads(self._file.read_text())
        for resource in content["resources"]:
            if "id" in resource:
                resource["id"] = ids.get((resource["type"], resource.get("logicalName") or resource["name"]))
        content["resources"] = _with_parents(content["resources"])
        self._file.write_text(json.dumps(content))
        file = ("--file", str(self._file), "--generate-code=false", "--protect=false")
        self._run.operate("import", *file, "--yes", "--skip-preview")

    def edit(self, change: Callable[[list[dict[str, Any]]], None]) -> None:
        """Changes the resources in the copy's state, as pulumi exports them."""
        exported = json.loads(self._run.command("stack", "export"))
        change(exported["deployment"].get("resources") or [])
        self._run.command("stack", "import", text=json.dumps(exported))

    def difference(self) -> Sequence[Mapping[str, Any]]:
        """Returns what the next `up` would do after the import: metadata of the engine's events."""
        events, _ = self._run.operate("preview")
        return events.planned

    def take(self) -> None:
        """Makes the copy's state that of the real stack."""
        exported = self._run.command("stack", "export")
        self._run.environment = self._real
        self._run.command("stack", "import", text=exported)
        self.taken = True


@contextmanager
def rehearsal(context: SiteContext, progress: Progress, again: str) -> Iterator[Rehearsal]:
    """Copies the stack of pulumi/cloud, which is made if there is none.

    Args:
        context: the site, whose lock is held.
        progress: receives status messages.
        again: the command, for the fix of an error.
    """
    run = Run("cloud", context.site, context.paths, progress, context.site_file, again=again)
    run.prepare()
    with TemporaryDirectory(prefix="strata-adopt-") as directory:
        yield Rehearsal(run, Path(directory))


def _with_parents(resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Resources that have an id, and the components that they are in."""
    taken = [r for r in resources if r.get("id")]
    parents = {r.get("parent") for r in taken}
    return [r for r in resources if r.get("id") or (r.get("component") and r["name"] in parents)]
