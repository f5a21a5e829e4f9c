"""Kolla-Ansible's commands, each recorded once it succeeded, so that `up` resumes with the one that failed."""

from __future__ import annotations

import os
from typing import ClassVar

from pydantic import Field

from strata.engine.ansible import PlaybookResult, follow_ansible
from strata.errors import UserError
from strata.installers.kolla.configuration import configuration_digest, configuration_directory
from strata.installers.kolla.files import public_files
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.outputs import Outputs
from strata.site.paths import SitePaths
from strata.toolchain.python_environment import Environment, ensure_collections, ensure_environment

PROGRAM = "kolla-ansible"
"""Its name in versions.yaml, and the command."""
BOOTSTRAP, DEPLOY = "bootstrap-servers", "deploy"
COMMANDS = (BOOTSTRAP, "prechecks", "pull", DEPLOY, "post-deploy")
"""In this order. `deploy` is `reconfigure` or `upgrade` once OpenStack runs."""


class Record(Outputs):
    """What Kolla-Ansible has done for a site."""

    file_name: ClassVar[str] = "kolla.json"
    done: dict[str, str] = Field(default_factory=dict)
    """Command to the digest of what it last succeeded with."""
    version: str = ""
    """Kolla-Ansible's, of the last complete deployment; empty before the first."""
    files: dict[str, str] = Field(default_factory=dict)
    """The files without secrets of that deployment."""

    @classmethod
    def of(cls, paths: SitePaths) -> Record:
        """The stored record, or an empty one."""
        return cls.load(paths) or cls()


def command_digest(command: str, paths: SitePaths, version: str) -> str:
    """Digest of what a command depends on: hosts and engine for bootstrap-servers, everything for the others."""
    folders = ("inventory", "globals.yml") if command == BOOTSTRAP else ()
    return f"{version} {configuration_digest(paths, *folders)}"


def is_done(command: str, context: SiteContext, version: str) -> bool:
    """Whether a command succeeded with the written configuration and this version of Kolla-Ansible."""
    return Record.of(context.paths).done.get(command) == command_digest(command, context.paths, version)


def action(command: str, record: Record, version: str) -> str:
    """The command that Kolla-Ansible is given: `deploy` only until the first complete deployment."""
    if command != DEPLOY or not record.version:
        return command
    return "reconfigure" if record.version == version else "upgrade"


def command_line(command: str, paths: SitePaths, environment: Environment) -> list[str]:
    """The command as an operator would type it.

    Args:
        command: of Kolla-Ansible.
        paths: of the site.
        environment: that has Kolla-Ansible.
    """
    directory = configuration_directory(paths)
    arguments = ["--inventory", str(directory / "inventory"), "--configdir", str(directory)]
    return [str(environment.programs / PROGRAM), command, *arguments]


def command_environment(environment: Environment) -> dict[str, str]:
    """Environment variables of its commands: its own programs and collections, events as JSON lines."""
    # mitogen's strategy must not deploy: Kolla-Ansible's modules keep state between calls
    dropped = {"ANSIBLE_CONFIG", "ANSIBLE_STRATEGY", "ANSIBLE_STRATEGY_PLUGINS", "PYTHONPATH", "VIRTUAL_ENV"}
    return {key: value for key, value in os.environ.items() if key not in dropped} | {
        "PATH": f"{environment.programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "ANSIBLE_COLLECTIONS_PATH": str(environment.collections),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.jsonl",
        "ANSIBLE_FORCE_COLOR": "false",
        "ANSIBLE_PIPELINING": "true",
        "PYTHONUNBUFFERED": "1",
    }


def run_command(command: str, context: SiteContext, progress: Progress) -> PlaybookResult:
    """Runs one of COMMANDS and records its success.

    Args:
        command: one of COMMANDS.
        context: the site; its configuration is written.
        progress: shows play and task.

    Raises:
        UserError: a task failed or a host could not be reached; names host, task and message.
    """
    paths, environment = context.paths, ensure_environment(PROGRAM, progress)
    if command == BOOTSTRAP:
        ensure_collections(PROGRAM, environment, progress)
    version = environment.version
    digest, asked = command_digest(command, paths, version), action(command, Record.of(paths), version)
    log = paths.create().logs / f"kolla-{command}.log"
    progress.update(f"starting {PROGRAM} {asked}")
    result, status, last = follow_ansible(
        command_line(asked, paths, environment),
        command_environment(environment),
        log,
        progress,
        directory=configuration_directory(paths),
        show_plays=True,
    )
    if status != 0:
        reason = "; ".join(result.failures[:3]) or f"exit status {status}: {' '.join(last)}"
        fix = f"see {log}, fix it, and run the same command again: `up` resumes with {asked}"
        raise UserError(f"kolla-ansible {asked}: {reason}", fix=fix, see="kolla-ansible-failed")
    record = Record.of(paths)
    record = record.model_copy(update={"done": record.done | {command: digest}})
    if command == COMMANDS[-1]:
        record = record.model_copy(update={"version": version, "files": public_files(context.site)})
    record.save(paths)
    return result
