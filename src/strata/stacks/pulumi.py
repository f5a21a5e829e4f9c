"""Runs the programs in pulumi/ on a site with the pulumi command, as an operator would by hand.

The command and not pulumi.automation: that one starts the command three times more per run and hides its events.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from strata.access.site_environment import site_environment
from strata.errors import UserError
from strata.models.site import Site
from strata.processes import start_followed
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY, SitePaths
from strata.site.secrets import SecretStore
from strata.stacks.events import Events
from strata.stacks.pending import delete_pending
from strata.stacks.pulumi_state import lock_files, project_name, state_file
from strata.stacks.recovery import (
    drop_foreign_salt,
    end_orphaned_plugins,
    explain_failures,
    release_stale_locks,
    repair_cut_writes,
)
from strata.stacks.refusals import remedy

Program = Literal["cloud", "platform"]


@dataclass(frozen=True)
class PulumiResult:
    """What a run did, components and providers not counted; `seconds` is wall time."""

    created: int
    updated: int
    deleted: int
    same: int
    seconds: float
    outputs: Mapping[str, Any] = field(default_factory=dict)
    planned: Sequence[Mapping[str, Any]] = ()
    """Of a preview: metadata of the steps that `up` would take."""

    @property
    def changed(self) -> int:
        """Resources that were created, changed or deleted."""
        return self.created + self.updated + self.deleted


def up(
    program: Program,
    site: Site,
    paths: SitePaths,
    progress: Progress,
    *,
    site_file: Path | None = None,
    recreated: Callable[[str], bool] | None = None,
) -> PulumiResult:
    """Deploys the program, and repairs drift.

    Args:
        program: directory in pulumi/.
        site: the site; its name is the stack's.
        paths: where its state is.
        progress: receives status messages.
        site_file: where the site was read; None for inventories/<site>/site.yaml.
        recreated: whether an error's message means that nothing in the state exists any more; None: no error does.

    Raises:
        UserError: a resource failed; with the provider's, and where there is one nova's, reason.
    """
    run = Run(program, site, paths, progress, site_file)
    run.prepare()
    try:
        events, seconds = run.operate("up", "--yes", "--skip-preview", "--refresh")
    except UserError as error:
        if recreated is None or not recreated(error.message):
            raise
        run.start_over()
        events, seconds = run.operate("up", "--yes", "--skip-preview")
    return run.result(events, seconds, run.outputs())


def preview(
    program: Program, site: Site, paths: SitePaths, progress: Progress, *, site_file: Path | None = None
) -> PulumiResult:
    """Counts what `up` would do; changes nothing. Arguments and errors as of `up`."""
    run = Run(program, site, paths, progress, site_file)
    run.prepare()
    events, seconds = run.operate("preview", "--refresh")
    return run.result(events, seconds, {})


def preview_steps(
    program: Program, site: Site, paths: SitePaths, progress: Progress, *, site_file: Path | None = None
) -> list[Mapping[str, Any]]:
    """The steps that `up` would take; unlike `preview` it touches no lock, plugin or stack of a run under way.

    Arguments and errors as of `up`.

    Returns:
        The metadata of the engine's events, components and steps that do nothing left out.
    """
    run = Run(program, site, paths, progress, site_file)
    if not run.stack_exists():
        raise UserError("not up", fix=f"strata up {site.name} --layer {program}")
    events, _ = run.operate("preview", "--refresh")
    return events.planned


def destroy(
    program: Program, site: Site, paths: SitePaths, progress: Progress, *, site_file: Path | None = None
) -> PulumiResult:
    """Deletes all that the program made, and the stack. Arguments and errors as of `up`."""
    run = Run(program, site, paths, progress, site_file)
    if not run.stack_exists():
        stack_settings_file(program, site.name).unlink(missing_ok=True)
        return PulumiResult(0, 0, 0, 0, 0.0)
    run.prepare()
    events, seconds = run.operate("destroy", "--yes", "--skip-preview", "--refresh")
    run.command("stack", "rm", "--yes")
    return run.result(events, seconds, {})


def forget(
    program: Program, site: Site, paths: SitePaths, progress: Progress, *, site_file: Path | None = None
) -> None:
    """Deletes the stack and leaves what the program made, which is gone already. Arguments and errors as of `up`."""
    run = Run(program, site, paths, progress, site_file)
    if run.stack_exists():
        # without what `prepare` does beside it: nothing can be asked for that is gone
        release_stale_locks(paths.pulumi, run.project, site.name)
        run.command("stack", "rm", "--yes", "--force")
    stack_settings_file(program, site.name).unlink(missing_ok=True)


def change_passphrase(
    program: Program,
    site: Site,
    paths: SitePaths,
    progress: Progress,
    following: Path,
    *,
    site_file: Path | None = None,
) -> None:
    """Encrypts the secrets in a stack's state with the passphrase in the file `following`.

    Does nothing where there is no stack, or where that passphrase opens it already. Other arguments and errors as of
    `up`.
    """
    run = Run(program, site, paths, progress, site_file)
    if not run.stack_exists():
        return
    run.prepare()
    current = dict(run.environment)
    run.environment["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(following)
    try:
        run.command("stack", "export", "--show-secrets")
    except UserError:
        run.environment = current
        new = following.read_text().strip()
        run.command("stack", "change-secrets-provider", "passphrase", text=f"{new}\n{new}\n")


def stack_settings_file(program: Program, site: str) -> Path:
    """Where pulumi keeps a stack's encryption salt, beside the program; not committed."""
    return REPOSITORY / "pulumi" / program / f"Pulumi.{site}.yaml"


class Run:
    """The pulumi command on one program of a site; arguments as of `up`.

    Args:
        again: command that continues after an error is fixed; None for `strata up` of the layer.
    """

    def __init__(
        self,
        program: Program,
        site: Site,
        paths: SitePaths,
        progress: Progress,
        site_file: Path | None,
        *,
        again: str | None = None,
    ) -> None:
        self.program = program
        self.project = project_name(program)
        self.directory = REPOSITORY / "pulumi" / program
        self.site = site
        self.paths = paths
        self.progress = progress
        self.again = again or f"strata up {site.name} --layer {program}"
        file = site_file or REPOSITORY / "inventories" / site.name / "site.yaml"
        self.context = SiteContext(site, file, paths)
        self.environment = dict(os.environ) | site_environment(self.context)
        # `--json` of a preview is one summary at the end, unless asked to stream
        self.environment["PULUMI_ENABLE_STREAMING_JSON_PREVIEW"] = "true"

    @property
    def state_file(self) -> Path:
        """The stack's state in the file backend."""
        return state_file(self.paths.pulumi, self.project, self.site.name)

    def stack_exists(self) -> bool:
        """Whether the stack has been made."""
        return self.state_file.exists()

    def locked(self) -> bool:
        """Whether a pulumi, one that was started by hand for instance, is at work on the stack."""
        return bool(lock_files(self.paths.pulumi, self.project, self.site.name))

    def prepare(self) -> None:
        """Makes the stack, and clears what a killed run left."""
        self.paths.create()
        SecretStore.open(self.site.name, self.site.secrets)  # creates the passphrase that encrypts the state
        drop_foreign_salt(stack_settings_file(self.program, self.site.name), self.state_file)
        if not self.stack_exists():
            self.progress.update(f"creating the stack {self.site.name}")
            self.command("stack", "init", "--secrets-provider", "passphrase")
            return
        end_orphaned_plugins(self.environment["PULUMI_BACKEND_URL"])
        release_stale_locks(self.paths.pulumi, self.project, self.site.name)
        if not self.locked():
            repair_cut_writes(self.state_file)
        if delete_pending(self.state_file, self.context, self.progress):
            self.operate("refresh", "--yes", "--skip-preview", "--clear-pending-creates")

    def start_over(self) -> None:
        """Deletes the state: nothing in it exists any more."""
        self.progress.update("deleting the state of the previous cloud")
        self.command("stack", "rm", "--yes", "--force")
        self.prepare()

    def command(self, *arguments: str, text: str | None = None) -> str:
        """Runs pulumi, with a text on its standard input, and returns what it printed."""
        done = subprocess.run(
            self._line(*arguments),
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL if text is None else None,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise self._error(arguments[0], done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def operate(self, *arguments: str) -> tuple[Events, float]:
        """Runs an operation on the stack and follows its events."""
        begin = time.monotonic()
        self.progress.update("starting pulumi")
        events = Events(self.progress)
        log = self.paths.logs / f"pulumi-{self.program}.log"
        last: deque[str] = deque(maxlen=20)
        command = self._line(*arguments, "--json", "--suppress-outputs")
        with log.open("w") as stream, start_followed(command, self.directory, self.environment) as process:
            assert process.stdout is not None
            for line in process.stdout:
                stream.write(line)
                events.read(line)
                last.append(line)
            status = process.wait()
        if arguments[0] == "up":
            events.timeline.save(self.paths.logs, f"pulumi-{self.program}")
        if status != 0 or events.failures:
            reasons = explain_failures(events.failures, self.context) or events.other or list(last)
            raise self._error(arguments[0], "\n".join(dict.fromkeys(r for r in reasons if r)), log)
        return events, time.monotonic() - begin

    def refresh_differences(self) -> Sequence[Mapping[str, Any]]:
        """Reads every resource again, without running the program or changing the state.

        Returns:
            Metadata of the events about resources that differ from the state, or are gone.
        """
        events, _ = self.operate("refresh", "--preview-only")
        return events.refreshed

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs."""
        values: dict[str, Any] = json.loads(self.command("stack", "output", "--json", "--show-secrets"))
        return values

    @staticmethod
    def result(events: Events, seconds: float, outputs: Mapping[str, Any]) -> PulumiResult:
        """The run's sum."""
        return PulumiResult(
            events.created, events.updated, events.deleted, events.same, seconds, outputs, events.planned
        )

    def _line(self, *arguments: str) -> list[str]:
        return ["pulumi", *arguments, "--stack", self.site.name, "--non-interactive", "--color", "never"]

    def _error(self, operation: str, text: str, log: Path | None = None) -> UserError:
        where = f"; events are in {log}" if log else ""
        entry = self.context.provider.cloud_entry
        known = remedy(text, self.site, entry, self.again) if self.program == "cloud" and entry else None
        return UserError(
            f"pulumi {operation} of {self.program}: {text or 'no reason given'}",
            fix=f"{known or f'fix it and run `{self.again}` again'}{where}",
        )
