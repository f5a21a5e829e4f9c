"""Steps of `up` before the cloud's Pulumi program: images, the controller, OpenStack."""

from __future__ import annotations

import time
from collections.abc import Callable

from strata.engine.playbook_step import playbook_step
from strata.layers import Layer, Step, StepResult
from strata.progress import Progress
from strata.site.context import SiteContext
from strata_lab import backup_store, controller, images
from strata_lab.hypervisors import require_empty

Work = Callable[[Progress], StepResult]


def cloud_steps(context: SiteContext, *, thorough: bool) -> list[Step]:
    """All of them, in an order that reads well.

    Args:
        context: the site.
        thorough: runs the playbook even without a change since its last success.

    Raises:
        ValueError: the site has no cloud, which a lab always has.
    """
    cloud = context.site.cloud
    if cloud is None:
        raise ValueError(f"site {context.site.name} has no cloud")
    node_images = [Step(f"image {i.name}", Layer.CLOUD, _node_image(i.release)) for i in cloud.images]
    steps = [
        Step("controller image", Layer.CLOUD, _image(images.ensure_controller_image)),
        *node_images,
        Step("controller", Layer.CLOUD, _controller(context), ("keys", "controller image")),
        Step("OpenStack", Layer.CLOUD, _openstack(context, thorough), ("controller",)),
    ]
    if backup_store.store_address(context.site) is not None:
        after = ("controller", *(step.name for step in node_images))
        steps.append(Step("backup store", Layer.CLOUD, _backup_store(context), after))
    return steps


def _image(ensure: Callable[[Progress], str]) -> Work:
    def run(progress: Progress) -> StepResult:
        begin = time.monotonic()
        reference = ensure(progress)
        return StepResult(0, f"{reference} ({time.monotonic() - begin:.0f} s)")

    return run


def _node_image(release: str) -> Work:
    return _image(lambda progress: images.ensure_node_image(release, progress))


def _controller(context: SiteContext) -> Work:
    def run(progress: Progress) -> StepResult:
        changed = controller.up(context.site, context.paths, progress)
        return StepResult(int(changed), f"container {controller.container_name(context.site)}")

    return run


def _backup_store(context: SiteContext) -> Work:
    def run(progress: Progress) -> StepResult:
        changed = backup_store.up(context.site, context.paths, controller.network_name(context.site), progress)
        return StepResult(int(changed), f"container {backup_store.container_name(context.site.name)}")

    return run


def _openstack(context: SiteContext, thorough: bool) -> Work:
    """Runs the OpenStack playbook and writes clouds.yaml."""
    playbook = playbook_step(context, "openstack", thorough)

    def run(progress: Progress) -> StepResult:
        result = playbook(progress)
        password = context.secrets.get("openstack_admin_password")
        controller.write_clouds_file(context.site, context.paths, password)
        require_empty(context)
        return result

    return run
