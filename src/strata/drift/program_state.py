"""Whether a Pulumi program would change anything: the inputs of its last success, and nothing has drifted since.

A run starts the engine, the program and its plugins to find out; reading what is deployed takes a third of that.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from strata.access.helm import helm_releases
from strata.access.kubectl import Unanswered
from strata.drift.baseline import TRUSTED_SECONDS
from strata.errors import UserError
from strata.platform.releases import releases
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.outputs import write_private
from strata.stacks import inputs
from strata.stacks.events import label, urn_name
from strata.stacks.pulumi import Program, Run

_RELEASE = ("revision", "status", "chart", "app_version", "updated")
"""What identifies the revision of a Helm release."""


class ProgramState:
    """A program at the start of a command: its inputs are those of this moment, also if files change during the run.

    Args:
        context: the site.
        program: directory in pulumi/.
        progress: receives status messages.
    """

    def __init__(self, context: SiteContext, program: Program, progress: Progress) -> None:
        self._context = context
        self._progress = progress
        self._run = Run(program, context.site, context.paths, progress, context.site_file)
        self._file = _record(context, program)
        self._secrets = inputs.secrets(context)  # makes the passphrase where there is none
        self._given = inputs.given(self._run)

    def reason_to_run(self) -> str | None:
        """Returns None if the program need not run, else the reason in a few words."""
        if self._run.program == "cloud" and self._context.provider.clouds_file is None:
            return "it looks up objects of the cloud"  # what it finds is an input too
        if self._run.locked():
            return "its stack is locked"
        record = _read(self._file)
        if record is None:
            return "it has not succeeded yet"
        if time.time() - record["at"] > TRUSTED_SECONDS:
            return "its last success is more than a day old"
        return self._changed_input(record) or self._drift(record)

    def invalidate(self) -> None:
        """Called before the program runs: from here on only its success counts."""
        self._file.unlink(missing_ok=True)

    def remember(self) -> None:
        """Called after its success, when its outputs have been stored."""
        record: dict[str, Any] = {
            "at": time.time(),
            "given": self._given,
            # those that the program itself generated are new
            "secrets": inputs.secrets(self._context) | self._secrets,
            "written": inputs.written(self._run),
        }
        if self._run.program == "platform":
            try:
                record["releases"] = _deployed(self._context)
            except Unanswered:
                return  # the next `up` runs the program again
        self._file.parent.mkdir(exist_ok=True, mode=0o700)
        write_private(self._file, json.dumps(record, indent=1))

    def _changed_input(self, record: dict[str, Any]) -> str | None:
        for known, now in (
            (record["given"], self._given),
            (record["written"], inputs.written(self._run)),
            # a secret that was generated since for something else is none of the program's inputs
            (record["secrets"], {name: self._secrets.get(name) for name in record["secrets"]}),
        ):
            changed = sorted(name for name in known.keys() | now.keys() if known.get(name) != now.get(name))
            if changed:
                more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
                return f"{changed[0]} has changed{more}"
        return None

    def _drift(self, record: dict[str, Any]) -> str | None:
        try:
            if self._run.program == "platform":
                self._progress.update("comparing the releases with those of the last run")
                return _changed_release(record["releases"], _deployed(self._context))
            self._progress.update("comparing the cloud with the state")
            differing = self._run.refresh_differences()
        except (UserError, Unanswered) as error:
            return str(error).splitlines()[0]
        if not differing:
            return None
        first = differing[0]
        more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        return f"{label(first['type'])} {urn_name(first['urn'])} has changed{more}"


def is_skipped(context: SiteContext, program: Program, progress: Progress) -> bool:
    """Whether `up` would skip the program; false during a run, and on a site that is not up.

    Args:
        context: the site.
        program: directory in pulumi/.
        progress: receives status messages.
    """
    return _record(context, program).exists() and ProgramState(context, program, progress).reason_to_run() is None


def _record(context: SiteContext, program: Program) -> Path:
    return context.paths.root / "programs" / f"{program}.json"


def _read(file: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return record


def _deployed(context: SiteContext) -> dict[str, list[str]]:
    """The site's releases in the cluster, as namespace/name, with what identifies their revision."""
    names = {f"{release.namespace}/{release.name}" for release in releases(context.site)}
    deployed = {
        f"{r['namespace']}/{r['name']}": [str(r[key]) for key in _RELEASE] for r in helm_releases(context, "--all")
    }
    return {name: deployed[name] for name in sorted(names & deployed.keys())}


def _changed_release(before: dict[str, list[str]], now: dict[str, list[str]]) -> str | None:
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if not changed:
        return None
    return f"release {changed[0]} has changed" + (f" and {len(changed) - 1} more" if len(changed) > 1 else "")
