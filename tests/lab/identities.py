"""Identities of a site's parts: each changes when its part is replaced, restarted, written again or edited."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from strata.access.helm import helm_releases
from strata.access.podman import SITE_LABEL, list_containers
from strata.drift.baseline import HostBaseline, directory, load
from strata.inventory.build import build_inventory
from strata.observe.hosts import ssh
from strata.site.context import SiteContext

if TYPE_CHECKING:
    from openstack.connection import Connection

Identities = dict[str, str]
"""Part to identity."""

OBJECTS = "nodes,namespaces,deployments,daemonsets,services,configmaps,networkpolicies,priorityclasses,resourcequotas"
"""Of the cluster, without those that replace themselves: leases, events, endpoints."""

CONTROLLERS = {"ReplicaSet", "DaemonSet", "StatefulSet", "Node"}
"""Owners of pods that go on."""

# without units that end by themselves: started by a question to them, by a timer, by a login
HOST_SCRIPT = """
units=$(systemctl list-units --type=service --state=running --plain --no-legend | cut -d ' ' -f 1 |
  grep -Ev '^(user@|systemd-(hostnamed|timedated|localed|tmpfiles)|apt-daily|dpkg-|logrotate|man-db|e2scrub|fstrim)')
for unit in $units; do
  echo "unit $unit|$(systemctl show --property=MainPID,ActiveEnterTimestampMonotonic,InvocationID $unit | tr '\\n' ' ')"
done
"""


def identities(
    context: SiteContext, cloud: Connection, kubectl: Callable[..., str], *, without: str | None
) -> Identities:
    """Of everything that Strata made of a running lab.

    Args:
        context: the site.
        cloud: OpenStack's administrator.
        kubectl: of the cluster.
        without: an instance that is left out, if one is, with the units, files and pods on it.
    """
    by_part = {
        **_containers(context, cloud, without),
        **dict(_cloud_objects(cloud, context.site.name)),
        **dict(_cluster_objects(kubectl, without)),
    }
    releases = helm_releases(context)
    by_part |= {f"release {r['name']}": r["revision"] for r in releases}
    hosts = {name: manifests for name, manifests in recorded(context).items() if name != without}
    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = pool.map(lambda name: dict(_host(context, name, hosts[name])), hosts)
        return by_part | {part: identity for answer in answers for part, identity in answer.items()}


def recorded(context: SiteContext) -> dict[str, HostBaseline]:
    """What all playbooks together put on each host that the site has."""
    inventory = build_inventory(context.site, context.cloud_outputs, context.site_file)
    by_host: dict[str, HostBaseline] = {}
    for playbook in ("openstack", "hosts", "cluster"):
        for file in sorted(directory(context.paths, playbook).glob("*.json")):
            baseline = load(context.paths, playbook, file.stem)
            if baseline is not None and file.stem in inventory.hosts:
                by_host.setdefault(file.stem, HostBaseline()).files.update(baseline.files)
    return by_host


def _host(context: SiteContext, name: str, manifest: HostBaseline) -> Iterator[tuple[str, str]]:
    inventory = build_inventory(context.site, context.cloud_outputs, context.site_file)
    script = HOST_SCRIPT + f"stat --format 'file %n|%i %z' {' '.join(manifest.files)}\n"
    output, error = ssh(context, str(inventory.hosts[name]["ansible_host"]), script)
    assert "unit ssh.service|" in output, f"{name}: {error}"
    for line in output.splitlines():
        part, _, identity = line.partition("|")
        kind, _, rest = part.partition(" ")
        # a file whose desired content has changed, such as one that names another host's address, is written again
        suffix = f" for {manifest.files[rest].digest}" if kind == "file" else ""
        yield f"{kind} {name}:{rest}{suffix}", identity


def _containers(context: SiteContext, cloud: Connection, without: str | None) -> Identities:
    """Each container, an instance's by the name that nova has for it."""
    servers = {f"strata-{context.site.name}-{s.id}": s.name for s in cloud.compute.servers(all_projects=True)}
    containers = list_containers("--filter", f"label={SITE_LABEL}={context.site.name}")
    names = {c["Names"][0]: f"{c['Id']} {c['StartedAt']}" for c in containers}
    assert set(servers) <= set(names)
    named = {servers.get(name, name): identity for name, identity in names.items()}
    return {f"container {name}": identity for name, identity in named.items() if name != without}


def _cloud_objects(cloud: Connection, site: str) -> Iterator[tuple[str, str]]:
    kinds = {
        "flavor": cloud.compute.flavors(),
        "aggregate": cloud.compute.aggregates(),
        "network": cloud.network.networks(),
        "subnet": cloud.network.subnets(),
        "router": cloud.network.routers(),
    }
    for kind, members in kinds.items():
        yield from ((f"{kind} {member.name}", str(member.id)) for member in members)
    # without the groups that neutron makes for each project
    names = {g.id: g.name for g in cloud.network.security_groups() if g.name.startswith(f"{site}-")}
    yield from ((f"security group {name}", str(identity)) for identity, name in names.items())
    for rule in cloud.network.security_group_rules():
        if group := names.get(rule.security_group_id):
            ports = f"{rule.port_range_min}-{rule.port_range_max}"
            source = rule.remote_ip_prefix or names.get(rule.remote_group_id)
            yield f"rule {group}: {rule.direction} {rule.ether_type} {rule.protocol} {ports} {source}", str(rule.id)


def _cluster_objects(kubectl: Callable[..., str], without: str | None) -> Iterator[tuple[str, str]]:
    for item in json.loads(kubectl("get", OBJECTS, "--all-namespaces", "--output", "json"))["items"]:
        metadata = item["metadata"]
        name = f"{item['kind']} {metadata.get('namespace', '')}/{metadata['name']}"
        yield name, f"{metadata['uid']} {metadata.get('generation', '')}"
    for pod in json.loads(kubectl("get", "pods", "--all-namespaces", "--output", "json"))["items"]:
        # without restarts of its containers: one that lost its lease on a slow machine starts again by itself
        # and without those that end by themselves: of jobs, users and tests
        owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences", [])}
        leaves = "deletionTimestamp" in pod["metadata"] or not owners & CONTROLLERS
        if not leaves and pod["spec"].get("nodeName") not in (None, without):
            yield f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}", str(pod["metadata"]["uid"])
