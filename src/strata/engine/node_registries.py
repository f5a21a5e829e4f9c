"""Registries of others that the site's nodes pull images from, asked from the nodes before they need them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from strata.access.ssh import Unreachable, run_ssh
from strata.errors import UserError
from strata.platform.operator_values import operator_values
from strata.platform.releases import releases
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.host_list import Host, hosts_with
from strata.site.installer_facts import builds_kubernetes_images
from strata.site.outputs import ClusterOutputs
from strata.toolchain import load_versions

OF_KUBESPRAY = ("quay.io", "registry.k8s.io")
"""Of its network plugins, etcd and Kubernetes."""
SECONDS = 10
PROGRAM = f"""
import sys, urllib.error, urllib.request
for registry in sys.argv[1:]:
    try:
        urllib.request.urlopen(f"https://{{registry}}/v2/", timeout={SECONDS})
    except urllib.error.HTTPError:
        pass  # it responds, and wants a token
    except OSError as error:
        print(registry, getattr(error, "reason", error), sep="\\t")
"""
"""For the Python that every host of Ansible has."""


def registries(context: SiteContext) -> dict[str, set[str]]:
    """Registry to what pulls from it: releases whose values name no other, and Kubespray without mirrors."""
    pinned, by_registry = load_versions().charts, dict[str, set[str]]()
    for release in releases(context.site):
        chart = pinned.get(release.chart)
        # with values of the operator's own, for instance an image of the site's registry, nothing is known
        if chart is None or release.substitute or operator_values(context.site_file, release.name):
            continue
        for image in chart.image_tags:
            by_registry.setdefault(image.partition("/")[0], set()).add(release.name)
    section = context.site.cluster.kubespray if context.site.cluster is not None else None
    if not builds_kubernetes_images(context.site) and not (section is not None and section.registry_mirrors):
        for registry in OF_KUBESPRAY:
            by_registry.setdefault(registry, set()).add("Kubespray")
    return by_registry


def check_registries(context: SiteContext, progress: Progress) -> str:
    """Has one node of each institution ask the registries; only before the cluster is first installed.

    Returns:
        What was done, in a few words.

    Raises:
        UserError: a node cannot reach one; names nodes, registries, reasons, and what would be pulled from there.
    """
    if context.provider.allows_substitutes or ClusterOutputs.load(context.paths) is not None:
        return "not asked"
    asked, nodes = registries(context), _one_of_each(context)
    if not asked or not nodes:
        return "none is needed"
    progress.update(f"asking {', '.join(sorted(asked))} from {', '.join(node.name for node in nodes)}")
    command = f"python3 -c {shlex.quote(PROGRAM)} {' '.join(map(shlex.quote, sorted(asked)))}"

    def ask(node: Host) -> list[tuple[str, str, str]]:
        done = run_ssh(context, node.address, command, seconds=60 + SECONDS * len(asked), root=False)
        if done.returncode != 0:
            raise Unreachable(f"{node.name}: {done.stderr.strip() or f'status {done.returncode}'}")
        lines = (line.partition("\t") for line in done.stdout.splitlines())
        return [(node.name, registry, reason) for registry, _, reason in lines]

    try:
        with ThreadPoolExecutor(len(nodes)) as pool:
            failed = [failure for failures in pool.map(ask, nodes) for failure in failures]
    except Unreachable as error:
        raise UserError(
            f"nodes cannot be asked for the registries: {error}", fix="run the same command again"
        ) from None
    if failed:
        users = ", ".join(sorted({user for _, registry, _ in failed for user in asked[registry]}))
        raise UserError(
            f"nodes cannot pull images: {'; '.join(': '.join(failure) for failure in failed)}",
            fix=f"open HTTPS from the nodes to these registries; or mirror the images of {users} and name your "
            "registry in values/RELEASE.yaml (Kubespray: registry_mirrors)",
            see="nodes-cannot-pull-images",
        )
    return f"{len(asked)} registries respond to {len(nodes)} nodes"


def _one_of_each(context: SiteContext) -> list[Host]:
    """A node of each institution: all of its nodes reach the outside in the same way."""
    machines = {machine.name: machine.institution for machine in context.site.hosts.machines}
    by_machine: dict[str | None, Host] = {}
    nodes: Iterable[Host] = hosts_with("kube_node", context.site, context.cloud_outputs)
    for node in nodes:
        by_machine.setdefault(machines.get(node.name), node)
    return list(by_machine.values())
