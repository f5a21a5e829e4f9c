"""The steps of each layer, for the lab and for real sites."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from strata.access.ssh import wait_for_ssh
from strata.drift.cloud import repair_objects
from strata.drift.platform import repair_releases
from strata.drift.program_state import ProgramState
from strata.engine.changes.disruption import Approval, Disruption, remember_cloud
from strata.engine.changes.drain import prepare_cloud
from strata.engine.cluster_installer import cluster_installer, cluster_tools
from strata.engine.diagnosis import diagnose
from strata.engine.keys import ensure_ssh_key
from strata.engine.kubernetes_version import version_step
from strata.engine.machines import accept_replaced, remove_leaving, stop_leaving_members
from strata.engine.node_registries import check_registries
from strata.engine.playbook_step import playbook_step
from strata.engine.pod_readiness import wait_for_system_pods
from strata.engine.service_readiness import wait_for_services
from strata.engine.virtual_address_members import remember_members
from strata.errors import UserError
from strata.images.pod_images import build_pod_images, ensure_pod_images, ensure_site_bases
from strata.inventory.clients import OPERATOR_SECRET
from strata.inventory.kubernetes import endpoint
from strata.inventory.port_numbers import KUBERNETES_API
from strata.layers import Layer, Step, StepResult
from strata.lifecycle import CloudLifecycle
from strata.platform.release_secrets import apply_secrets, remove_secrets
from strata.platform.releases import fetch_charts, releases
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.host_list import api_address, hosts_with, outside_of
from strata.site.installer_facts import installer_of
from strata.site.outputs import CloudOutputs, ClusterOutputs
from strata.site.paths import INSTALLED
from strata.site.support import refusal
from strata.stacks import pulumi
from strata.toolchain import ToolUnavailable, charts, ensure, load_versions
from strata.toolchain.packed import packed

PULUMI_TOOLS = ("pulumi", "pulumi-language-python", "pulumi-resource-openstack")
KUBERNETES_PLUGIN = "pulumi-resource-kubernetes"
SENT_TOOLS = ("kubelet", "kubeadm", "kubectl", "network-policies")
"""Those that go to hosts by strata_binaries."""


def tools_step(names: Iterable[str]) -> Callable[[Progress], StepResult]:
    """Returns a step that installs the named tools."""
    tool_names = tuple(names)

    def run(progress: Progress) -> StepResult:
        begin = time.time()
        tools = ensure(tool_names, progress)
        for name in sorted(tools.keys() & set(SENT_TOOLS)):
            progress.update(f"compressing {name}")
            packed(tools[name].path, tools[name].sha256)
        fresh = [t for t in tools.values() if t.path.stat().st_mtime >= begin]
        sources = sorted({str(t.source) for t in tools.values()})
        return StepResult(len(fresh), f"{len(tools)} tools ({', '.join(sources)})")

    return run


def charts_step(context: SiteContext) -> Callable[[Progress], StepResult]:
    """A step that fetches the charts of other projects that the site's releases use."""

    def run(progress: Progress) -> StepResult:
        fetched = fetch_charts(context.site, progress)
        names = {release.chart for release in releases(context.site) if not release.substitute}
        used = [chart for chart in charts.report() if chart.name in names]
        return StepResult(len(fetched), ", ".join(f"{c.name} {c.version} ({c.source})" for c in used))

    return run


def kubernetes_plugin_step(context: SiteContext) -> Callable[[Progress], StepResult]:
    """A step that has Pulumi's Kubernetes plugin, or its substitute where the site allows that."""

    def run(progress: Progress) -> StepResult:
        try:
            return tools_step((KUBERNETES_PLUGIN,))(progress)
        except ToolUnavailable as error:
            if context.provider.allows_substitutes:
                return StepResult(0, f"substitute of {KUBERNETES_PLUGIN}, which is not available")
            fix = error.fix
            if not INSTALLED:
                fix = f"{fix}; to rehearse the site without it, set allow_substitutes: true in site.yaml"
            raise ToolUnavailable(error.message, fix=fix, see="a-tool-is-not-available") from None

    return run


def keys_step(context: SiteContext) -> Callable[[Progress], StepResult]:
    """A step that has the site's SSH key and certificate authority."""

    def run(progress: Progress) -> StepResult:
        progress.update("SSH key and certificate authority")
        changed = ensure_ssh_key(context.paths)
        context.secrets.ensure_ca()
        return StepResult(int(changed), str(context.paths.root))

    return run


def cloud_program_step(
    context: SiteContext, lifecycle: CloudLifecycle, approval: Approval, *, thorough: bool = False
) -> Callable[[Progress], StepResult]:
    """Returns a step that runs pulumi/cloud, if it has anything to do, and stores its outputs."""

    def run(progress: Progress) -> StepResult:
        from strata.engine.existing_cloud.checks import check_volume_sizes  # noqa: PLC0415  # loads pulumi: 0.1 s

        check_volume_sizes(context)
        lifecycle.check_cloud(progress)
        drained = prepare_cloud(context, approval, progress)
        repaired = repair_objects(context, progress)
        state = ProgramState(context, "cloud", progress)
        reason = "asked for" if thorough else state.reason_to_run()
        known = context.cloud_outputs
        if reason is None and known is not None:
            removed = lifecycle.after_cloud(progress)
            detail = f"{len(known.instances)} instances, skipped: no change, no drift"
            return StepResult(drained + len(repaired) + removed, "; ".join([detail, *repaired]))
        state.invalidate()
        result = pulumi.up(
            "cloud",
            context.site,
            context.paths,
            progress,
            site_file=context.site_file,
            recreated=lifecycle.cloud_recreated,
        )
        outputs = CloudOutputs.model_validate(
            {key: result.outputs[key] for key in CloudOutputs.model_fields if key in result.outputs}
        )
        outputs.save(context.paths)
        remember_cloud(context)
        state.remember()
        removed = lifecycle.after_cloud(progress)
        detail = f"{len(outputs.instances)} instances; run because: {reason}"
        return StepResult(result.changed + drained + len(repaired) + removed, "; ".join([detail, *repaired]))

    return run


def hosts_step(context: SiteContext, thorough: bool, approval: Approval) -> Callable[[Progress], StepResult]:
    """A step that has leaving machines give up what they share, waits for SSH and configures the hosts."""
    playbook = playbook_step(context, "hosts", thorough)

    def run(progress: Progress) -> StepResult:
        changed = accept_replaced(context, approval.instances, progress) + remove_leaving(context, approval, progress)
        wait_for_ssh(context, progress)
        stopped, silent = stop_leaving_members(context, progress)
        result = playbook(progress)
        remember_members(context)
        return replace(result, changed=result.changed + changed + stopped, detail="; ".join((result.detail, *silent)))

    return run


def pod_bases_step(context: SiteContext) -> Callable[[Progress], StepResult]:
    """Returns a step that builds the bases of the site's pod images."""

    def run(progress: Progress) -> StepResult:
        begin = time.monotonic()
        bases = ensure_site_bases(context.site, progress)
        names = ", ".join(base.reference for base in bases.values())
        return StepResult(0, f"{names} ({time.monotonic() - begin:.0f} s)")

    return run


def pod_image_builds_step(context: SiteContext) -> Callable[[Progress], StepResult]:
    """A step that has every pod image of the site built on this machine, while the cloud and the hosts come up."""

    def run(progress: Progress) -> StepResult:
        return StepResult(0, f"{build_pod_images(context.site, progress)} images in the cache")

    return run


def pod_images_step(context: SiteContext) -> Callable[[Progress], StepResult]:
    """A step that has every pod image in the site's registry."""

    def run(progress: Progress) -> StepResult:
        before = context.image_outputs
        address = registry_address(context)
        try:
            password = context.secrets.get(OPERATOR_SECRET)
            images = ensure_pod_images(context.site, context.paths, address, password, progress)
        except UserError as error:
            progress.update("checking the registry's host for exhausted resources")
            raise diagnose(
                context, error, [h.name for h in hosts_with("registry", context.site, context.cloud_outputs)]
            ) from error.__cause__
        images.save(context.paths)
        old = before.images if before else {}
        changed = sum(old.get(name) != reference for name, reference in images.images.items())
        return StepResult(changed, f"{len(images.images)} images by digest")

    return run


def registry_address(context: SiteContext) -> str:
    """Where images are pushed to: address of the host with the role registry.

    Raises:
        UserError: the cloud layer has not made it, or the site has none.
    """
    address = outside_of("registry", context.site, context.cloud_outputs)
    if address is None:
        raise UserError(
            f"site {context.site.name}: no deployed host has the role registry",
            fix=f"run `strata up {context.site.name} --layer cloud`, or add registry to an instance's roles",
        )
    return address


def registries_step(context: SiteContext) -> Callable[[Progress], StepResult]:
    """A step that has nodes ask the registries that they will pull from."""

    def run(progress: Progress) -> StepResult:
        return StepResult(0, check_registries(context, progress))

    return run


def cluster_step(context: SiteContext, thorough: bool) -> Callable[[Progress], StepResult]:
    """A step that has the site's installer bring up the cluster, and keeps what the platform needs."""
    installer = cluster_installer(context)

    def run(progress: Progress) -> StepResult:
        result = installer.install(context, progress, thorough=thorough)
        wait_for_system_pods(context, progress)
        api = api_address(context.site, context.cloud_outputs, outside=True)
        assert api is not None, "the installer connected to it"
        ClusterOutputs(
            api_endpoint=endpoint(api, KUBERNETES_API),
            kubernetes_version=load_versions().tools["kubectl"].version,
            installer=installer_of(context.site).name,
        ).save(context.paths)
        return result

    return run


def service_secrets_step(context: SiteContext) -> Callable[[Progress], StepResult]:
    """Returns a step that applies the Secrets of the platform's releases; Traefik reads a new one without a restart."""

    def run(progress: Progress) -> StepResult:
        progress.update("comparing the cluster's Secrets with the site's")
        changed = apply_secrets(context)
        return StepResult(len(changed), ", ".join(changed) or "Secrets of the releases")

    return run


def platform_program_step(context: SiteContext, *, thorough: bool = False) -> Callable[[Progress], StepResult]:
    """Returns a step that runs pulumi/platform, if it has anything to do, and repairs drift of the releases."""

    def run(progress: Progress) -> StepResult:
        state = ProgramState(context, "platform", progress)
        reason = "asked for" if thorough else state.reason_to_run()
        changed = 0
        if reason is not None:
            state.invalidate()
            result = pulumi.up("platform", context.site, context.paths, progress, site_file=context.site_file)
            changed = result.changed
            state.remember()
        progress.update("comparing the cluster's objects with the releases")
        repaired = [*repair_releases(context), *(f"Secret {name} removed" for name in remove_secrets(context))]
        if changed or repaired:
            wait_for_services(context, progress)
        how = "skipped: no change, no drift" if reason is None else f"run because: {reason}"
        return StepResult(changed + len(repaired), "; ".join([f"Helm releases, {how}", *repaired]))

    return run


def up_steps(
    context: SiteContext,
    lifecycle: CloudLifecycle,
    layers: Iterable[Layer],
    *,
    thorough: bool = False,
    approval: Approval | None = None,
) -> list[Step]:
    """All steps of `up` for the chosen layers, in an order that reads well.

    Args:
        context: the site.
        lifecycle: of its cloud.
        layers: those to bring up.
        thorough: run every playbook and Pulumi program, also one whose work is all there.
        approval: which instances may be disrupted; None for none.

    Raises:
        UserError: the site asks for something that this release does not install.
    """
    chosen, allowed = set(layers), approval or Approval()
    if refused := refusal(context, chosen):
        raise refused
    site = context.site
    # what the installer needs is there, and it can do what changed, before any layer changes something
    prepared: list[Step] = []
    if site.cluster is not None:
        prepared = [version_step(context, allowed), *cluster_installer(context).preparation(context)]
        if site.allow_substitutes or not context.provider.allows_substitutes:
            prepared.append(Step("platform tools", Layer.PLATFORM, kubernetes_plugin_step(context)))
    first = tuple(step.name for step in prepared)
    steps: list[Step] = [*prepared, Step("keys", Layer.CLOUD, keys_step(context), first)]
    if site.cloud is not None:
        steps.append(Step("pulumi tools", Layer.CLOUD, tools_step(PULUMI_TOOLS)))
        before = lifecycle.cloud_steps(
            thorough=thorough, drainable=lambda host: allowed.covers(Disruption(host, "drained", ()))
        )
        needs = ("keys", "pulumi tools", *(step.name for step in before))
        program = cloud_program_step(context, lifecycle, allowed, thorough=thorough)
        steps += [*before, Step("cloud", Layer.CLOUD, program, needs)]
    if site.cluster is not None:
        # the pinned tools are built while the cloud comes up; the hosts layer copies kine
        steps.append(Step("cluster tools", Layer.HOSTS, tools_step(cluster_tools(context)), ("pulumi tools",)))
    steps.append(Step("hosts", Layer.HOSTS, hosts_step(context, thorough, allowed), ("cloud", "cluster tools", "keys")))
    if site.cluster is not None:
        steps += [
            Step("pod bases", Layer.CLUSTER, pod_bases_step(context)),
            Step("pod image builds", Layer.CLUSTER, pod_image_builds_step(context), ("cluster tools", "pod bases")),
            Step("pod images", Layer.CLUSTER, pod_images_step(context), ("hosts", "pod image builds")),
            Step("image registries", Layer.CLUSTER, registries_step(context), ("hosts",)),
            Step(
                "cluster",
                Layer.CLUSTER,
                cluster_step(context, thorough),
                ("hosts", "pod images", "image registries", *first),
            ),
            Step("charts", Layer.PLATFORM, charts_step(context)),
            Step("service secrets", Layer.PLATFORM, service_secrets_step(context), ("cluster",)),
            Step(
                "platform",
                Layer.PLATFORM,
                platform_program_step(context, thorough=thorough),
                ("service secrets", "charts"),
            ),
        ]
    return [s for s in steps if s.layer in chosen]
