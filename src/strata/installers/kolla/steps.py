"""Steps of `up` before the cloud's Pulumi program: Kolla-Ansible, its configuration, its commands, clouds.yaml."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import yaml

from strata.cloud.clouds_file import entries
from strata.installers.kolla.commands import BOOTSTRAP, COMMANDS, PROGRAM, Record, action, is_done, run_command
from strata.installers.kolla.configuration import admin_password, write_configuration
from strata.installers.kolla.files import section
from strata.installers.kolla.images import ensure_files
from strata.installers.kolla.passthrough import inventory, run_passthrough
from strata.installers.kolla.passthrough import is_done as is_passed_through
from strata.layers import Layer, Step, StepResult
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.outputs import write_private
from strata.toolchain.python_environment import COMPLETE, ensure_environment, environment_directory

CONFIGURATION = "Kolla configuration"


def cloud_steps(context: SiteContext, *, thorough: bool, drainable: Callable[[str], bool]) -> list[Step]:
    """All of them; each command waits for the one before.

    Args:
        context: the site.
        thorough: runs every command, even without a change since its last success.
        drainable: whether the operator allowed to empty a hypervisor, by its name.
    """
    steps = [
        Step("Kolla-Ansible", Layer.CLOUD, _install),
        Step(CONFIGURATION, Layer.CLOUD, _configure(context), ("keys", "Kolla-Ansible")),
    ]
    for command in COMMANDS:
        run = partial(_run, command, context, thorough)
        steps.append(Step(f"kolla {command}", Layer.CLOUD, run, (steps[-1].name,)))
        if command == BOOTSTRAP:  # nova reads the cards when it starts, and a host with instances must not be rebooted
            step = partial(_passthrough, context, thorough, drainable)
            steps.append(Step("PCI passthrough", Layer.CLOUD, step, (steps[-1].name,)))
    images = Step("cloud images", Layer.CLOUD, partial(_images, context))
    return [
        *steps,
        images,
        Step("Kolla credentials", Layer.CLOUD, _credentials(context), (steps[-1].name, images.name)),
    ]


def _install(progress: Progress) -> StepResult:
    installed = (environment_directory(PROGRAM) / COMPLETE).exists()
    environment = ensure_environment(PROGRAM, progress)
    return StepResult(int(not installed), f"{environment.version} in {environment.directory}")


def _configure(context: SiteContext) -> Callable[[Progress], StepResult]:
    def run(progress: Progress) -> StepResult:
        environment = ensure_environment(PROGRAM, progress)
        progress.update("writing inventory, globals.yml, passwords.yml and overrides")
        changed = write_configuration(context, environment)
        return StepResult(changed, f"{changed} files changed")

    return run


def _run(command: str, context: SiteContext, thorough: bool, progress: Progress) -> StepResult:
    version = ensure_environment(PROGRAM, progress).version
    if not thorough and is_done(command, context, version):
        return StepResult(0, "skipped: no change since its last success")
    asked = action(command, Record.of(context.paths), version)
    result = run_command(command, context, progress)
    return StepResult(result.changed, f"{asked}: {result.ok} tasks ok, {result.changed} changed")


def _passthrough(
    context: SiteContext, thorough: bool, drainable: Callable[[str], bool], progress: Progress
) -> StepResult:
    if not inventory(context.site, ()):
        return StepResult(0, "skipped: no hypervisor has cards")
    if not thorough and is_passed_through(context):
        return StepResult(0, "skipped: no change since its last success")
    result = run_passthrough(context, progress, drainable)
    return StepResult(result.changed, f"{result.ok} tasks ok, {result.changed} changed")


def _images(context: SiteContext, progress: Progress) -> StepResult:
    downloaded = ensure_files(context, progress)
    return StepResult(0, f"{downloaded} downloaded, for glance")


def _credentials(context: SiteContext) -> Callable[[Progress], StepResult]:
    """Writes clouds.yaml with the administrator's entries."""

    def run(progress: Progress) -> StepResult:
        progress.update("writing clouds.yaml")
        return StepResult(int(write_clouds_file(context)), str(context.paths.clouds_file))

    return run


def write_clouds_file(context: SiteContext) -> bool:
    """Writes clouds.yaml for the administrator, alone and inside the site's project; returns whether it changed."""
    cloud, kolla = section(context.site)
    needed, clouds = entries(context.site.name, cloud), {}
    for entry, project in ((needed.administrator, "admin"), (needed.project, cloud.project.name)):
        auth = {
            "auth_url": f"https://{kolla.external.name}:5000/v3",
            "username": "admin",
            "password": admin_password(context.paths),
            "project_name": project,
            "user_domain_name": "Default",
            "project_domain_name": "Default",
        }
        region = {"region_name": "RegionOne", "identity_api_version": 3}
        clouds[entry] = {"auth": auth, "cacert": str(context.paths.ca_file), **region}
    return write_private(context.paths.clouds_file, yaml.safe_dump({"clouds": clouds}, sort_keys=False))
