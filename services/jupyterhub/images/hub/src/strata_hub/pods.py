"""Users' pods as their tenants configure them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from strata_hub import TENANT_LABEL, Profile, datasets, tenant_label
from strata_hub.configuration import Limits, bytes_of, effective
from strata_hub.sources import NOTHING, Allowed
from strata_hub.store import Store

SHARED = "/shared"
"""Not below the home: there, a file of the user could be in the way."""
SECONDS = {
    "activeDeadlineSeconds": "active_deadline_seconds",
    "terminationGracePeriodSeconds": "termination_grace_period_seconds",
}
"""Fields of pods and their names in Kubernetes' Python client."""


def pod_hook(
    tenants: Sequence[Mapping[str, str]],
    profiles: Sequence[Profile],
    access: Mapping[str, Profile],
    limits: Mapping[str, Limits],
    accelerators: Mapping[str, Any],
    shared: Mapping[str, Any],
    downloads: datasets.Downloads,
    sources: Mapping[str, Allowed],
) -> Callable[[Any, Any], Awaitable[Any]]:
    """The function that KubeSpawner calls with each pod before it creates it: the tenant's label, and the configuration
    and datasets of that tenant only, also for a user of several. A server that does not fit into the tenant's quota is
    refused.

    Args:
        tenants: as `tenant_label` takes them, as well as `profiles` and `access`.
        limits: by tenant.
        accelerators: as `configure` takes them.
        shared: `folders`, by tenant: `claim` and `group`; `users`: tenants of users who are in none.
        downloads: what the site allows of datasets.
        sources: of datasets, by tenant.
    """
    label = tenant_label(tenants, profiles, access)
    groups_of = {tenant["name"]: tenant["group"] for tenant in tenants}

    async def change(spawner: Any, pod: Any) -> Any:
        pod = label(spawner, pod)
        name = pod.metadata.labels.get(TENANT_LABEL)
        if name is not None:
            user, groups = spawner.user.name, {group.name for group in spawner.user.groups}
            store, image = Store(spawner.db, name), pod.spec.containers[0].image
            configure(pod, effective(store.all(), user, groups, groups_of[name], limits[name]), accelerators)
            await datasets.mount(pod, image, datasets.of(store), sources.get(name, NOTHING), downloads)
        dask_options(pod.spec.containers[0], name)
        member_of = name or shared["users"].get(spawner.user.name)
        folder = shared["folders"].get(member_of)
        if folder is not None:
            mount_shared_folder(pod, member_of, folder)
        # last, as what fails before needs no room
        await spawner.reserve(name, pod)
        return pod

    return change


def dask_options(container: Any, tenant: str | None) -> None:
    """Dask clusters of the server have its image and its tenant, where the site has Dask clusters."""
    if not any(variable.name == "DASK_GATEWAY__ADDRESS" for variable in container.env or ()):
        return
    prefix = "DASK_GATEWAY__CLUSTER__OPTIONS__"
    options = {f"{prefix}IMAGE": container.image} | ({f"{prefix}TENANT": tenant} if tenant else {})
    set_environment(container, options)


def mount_shared_folder(pod: Any, tenant: str, folder: Mapping[str, Any]) -> None:
    """Mounts the tenant's folder; its group is how NFS admits the server.

    Args:
        pod: V1Pod.
        tenant: of the server.
        folder: `claim` and `group`.
    """
    volume = {"name": "shared", "persistentVolumeClaim": {"claimName": folder["claim"]}}
    pod.spec.volumes = [*(pod.spec.volumes or ()), volume]
    container = pod.spec.containers[0]
    mount = {"name": "shared", "mountPath": f"{SHARED}/{tenant}"}
    container.volume_mounts = [*(container.volume_mounts or ()), mount]
    pod.spec.security_context = {**(pod.spec.security_context or {}), "supplementalGroups": [folder["group"]]}


def configure(pod: Any, configuration: Mapping[str, Any], accelerators: Mapping[str, Any]) -> None:
    """Changes a pod that KubeSpawner is about to create.

    Args:
        pod: V1Pod.
        configuration: valid, of the user.
        accelerators: kind to `resource`, `nodeSelector` and `tolerations`.
    """
    container = pod.spec.containers[0]
    if image := configuration.get("image"):
        container.image = image
    limits, requests = dict(container.resources.limits or {}), dict(container.resources.requests or {})
    for name, resource in (("cpu", "cpu"), ("mem", "memory")):
        for suffix, target in (("limit", limits), ("guarantee", requests)):
            key = f"{name}_{suffix}"
            if key in configuration:
                amount = configuration[key]
                target[resource] = float(amount) if name == "cpu" else bytes_of(key, amount)
        # a profile's guarantee may be more than the configured limit
        if resource in limits and float(requests.get(resource, 0)) > float(limits[resource]):
            requests[resource] = limits[resource]
    if "accelerators" in configuration:
        _accelerators(pod.spec, limits, requests, configuration["accelerators"], accelerators)
    container.resources.limits, container.resources.requests = limits, requests
    variables = {key.upper(): str(configuration[key]) for key in ("cpu_limit", "cpu_guarantee") if key in configuration}
    sizes = {key: bytes_of(key, configuration[key]) for key in ("mem_limit", "mem_guarantee") if key in configuration}
    variables |= {key.upper(): str(size) for key, size in sizes.items()}
    set_environment(container, variables | configuration.get("environment", {}))
    extra = configuration.get("extra_pod_config", {})
    for name, attribute in SECONDS.items():
        if name in extra:
            setattr(pod.spec, attribute, extra[name])
    # the profile's selectors lead to its accelerators
    pod.spec.node_selector = {**extra.get("nodeSelector", {}), **(pod.spec.node_selector or {})} or None


def _accelerators(
    spec: Any,
    limits: dict[str, Any],
    requests: dict[str, Any],
    counts: Mapping[str, int],
    known: Mapping[str, Any],
) -> None:
    """In place of those of the profile."""
    selector, tolerations = dict(spec.node_selector or {}), list(spec.tolerations or ())
    for accelerator in known.values():
        limits.pop(accelerator["resource"], None)
        requests.pop(accelerator["resource"], None)
        selector = {key: value for key, value in selector.items() if accelerator["nodeSelector"].get(key) != value}
    for kind, count in counts.items():
        card = known[kind]
        limits[card["resource"]] = requests[card["resource"]] = str(count)
        selector |= card["nodeSelector"]
        tolerations += card["tolerations"]
    spec.node_selector, spec.tolerations = selector or None, tolerations or None


def set_environment(container: Any, variables: Mapping[str, str]) -> None:
    """Literal values: KubeSpawner's templates are expanded before."""
    existing: Sequence[Any] = container.env or ()
    if variables and existing:
        # the client's class, which is not imported here
        entry = type(existing[0])
        others = [variable for variable in existing if variable.name not in variables]
        container.env = [*others, *(entry(name=name, value=value) for name, value in variables.items())]
