"""A lab's hypervisors that leave the site file: not before their instances have gone."""

from __future__ import annotations

from strata.engine import playbook_state
from strata.engine.ansible import run_playbook
from strata.engine.changes.disruption import Applied, leaving_instances
from strata.engine.runner import Refused
from strata.observe.cloud import observe_cloud
from strata.progress import Progress
from strata.site.context import SiteContext


class HypervisorOccupied(Refused):
    """A hypervisor is removed from site.yaml, and instances that stay run on it."""

    see = "a-hypervisor-cannot-leave"


def leaving_hypervisors(context: SiteContext) -> list[str]:
    """Names of hypervisors that were there at the cloud's last success and are removed from the site file."""
    known = Applied.load(context.paths)
    cloud = context.site.cloud
    if known is None or cloud is None:
        return []
    before = (known.sections.get("cloud") or {}).get("hypervisors", [])
    names = {h.name for h in cloud.hypervisors}
    return [h["name"] for h in before if h["name"] not in names]


def occupied_hypervisors(context: SiteContext) -> dict[str, tuple[str, ...]]:
    """Each leaving hypervisor with the instances on it that would stay; empty where nova does not respond."""
    leaving = leaving_hypervisors(context)
    if not leaving:
        return {}
    going = set(leaving_instances(context))
    servers = observe_cloud(context).servers
    on = {name: tuple(s for s in servers if servers[s].hypervisor == name and s not in going) for name in leaving}
    return {name: instances for name, instances in on.items() if instances}


def require_empty(context: SiteContext) -> None:
    """Once OpenStack answers, and before the cloud's program runs.

    Raises:
        HypervisorOccupied: names each hypervisor that leaves, and the instances that keep it.
    """
    occupied = occupied_hypervisors(context)
    if not occupied:
        return
    details = "; ".join(f"{name}: {', '.join(instances)}" for name, instances in occupied.items())
    first = next(iter(occupied.values()))[0]
    raise HypervisorOccupied(
        f"site {context.site.name}: hypervisors left the site file, but instances still run on them: {details}",
        fix=f"put them back, take the instances out too, or move these first: openstack server migrate --wait {first}, "
        f"then openstack server migration confirm {first}",
    )


def forget_emptied(context: SiteContext, progress: Progress) -> int:
    """After the Pulumi program: deregisters hypervisors whose last instances it has just deleted.

    Returns:
        Number of tasks that changed something.

    Raises:
        UserError: the playbook failed.
    """
    leaving = leaving_hypervisors(context)
    if not leaving or not set(leaving) & set(observe_cloud(context).hypervisors):
        return 0
    progress.update(f"removing {', '.join(leaving)}")
    playbook_state.invalidate(context, "openstack")
    result = run_playbook(context, "openstack", progress)
    playbook_state.remember(context, "openstack")
    return result.changed
