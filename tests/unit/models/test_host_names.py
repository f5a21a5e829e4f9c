"""A host is not named like a group of its inventory, nor like a service."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from strata.catalogue.published import published
from strata.inventory.build import build_inventory
from strata.models.declared_hosts import declared_hosts
from strata.models.key_path import KeyPath, dotted
from strata.models.site import Site
from strata.models.types import DNS_LABEL_PATTERN
from strata.roles import roles
from strata.site.paths import REPOSITORY
from strata.site_file.checks.host_names import check, kolla_groups
from strata.site_file.checks.kubespray import groups
from strata.site_file.loader import load_site

COMPLETE = REPOSITORY / "tests" / "corpus" / "complete"
SITES = {file.stem: load_site(file) for file in sorted(COMPLETE.glob("*.yaml"))}


def labels(names: object) -> list[str]:
    """Those that could be a host's name."""
    assert isinstance(names, list | tuple | set | dict | frozenset)
    return sorted(name for name in names if re.match(DNS_LABEL_PATTERN, name))


def refused(site: str, name: str, *path: str | int) -> list[str]:
    """Reasons against the name at this key; no other key may be refused."""
    content: Any = yaml.safe_load((COMPLETE / f"{site}.yaml").read_text())
    entry = content
    for step in path:
        entry = entry[step]
    entry["name"] = name
    findings = list(check(Site.model_validate(content)))
    assert {dotted(finding.path) for finding in findings} <= {dotted((*path, "name"))}
    assert all(finding.fix == f"another name, for instance {name}-1" for finding in findings)
    return [finding.why for finding in findings]


HOSTS = {"instance": ("cloud", "instances", 1), "machine": ("hosts", "machines", 0)}


@pytest.mark.parametrize("name", ["all", "ungrouped", "localhost", "nodes", *labels(roles())])
@pytest.mark.parametrize("host", HOSTS)
def test_no_host_is_named_like_a_group(host: str, name: str) -> None:
    assert len(refused("existing", name, *HOSTS[host])) == 1


@pytest.mark.parametrize("site", SITES)
def test_every_group_of_the_inventory_is_refused(site: str) -> None:
    inventory = build_inventory(SITES[site], None, COMPLETE / f"{site}.yaml")
    for name in labels(inventory.groups):
        assert refused(site, name, *HOSTS["instance"][:2], 0), name


@pytest.mark.parametrize("name", [name for role in roles().values() for name in role.dns_names])
def test_no_host_is_named_like_the_dns_name_of_a_role_of_the_site(name: str) -> None:
    role = next(key for key, role in roles().items() if name in role.dns_names)
    used = {role for host in declared_hosts(SITES["existing"]) for role in host.roles}
    wrong = refused("existing", name, *HOSTS["machine"])
    assert wrong == ([f"is the DNS name of the role {role}"] if role in used else wrong)
    assert bool(wrong) == (role in used or name in roles())


@pytest.mark.parametrize(
    ("site", "name", "key"),
    [
        (name, service.hostname, service.hostname_key)
        for name, site in SITES.items()
        for service in published(site)
        if service.hostname
    ],
)
def test_no_host_is_named_like_a_published_service(site: str, name: str, key: KeyPath) -> None:
    text = dotted(key).removesuffix(".hostname")
    assert refused(site, name, *HOSTS["instance"][:2], 0) == [f"is the hostname of {text}"]


@pytest.mark.parametrize("name", labels(groups()))
def test_no_node_is_named_like_a_group_of_kubespray(name: str) -> None:
    assert refused("existing", name, *HOSTS["machine"]) == ["is a group of Kubespray"]


def test_a_host_outside_of_the_cluster_may_be_named_bastion() -> None:
    """It is not in Kubespray's inventory."""
    assert refused("existing", "bastion", "cloud", "instances", 0) == []
    assert refused("lab", "etcd", "cloud", "instances", 0) == []


@pytest.mark.parametrize("name", ["all", "control", "nova-api", "mariadb", "storage"])
@pytest.mark.parametrize("host", ["hypervisors", "controllers"])
def test_no_host_of_kolla_is_named_like_one_of_its_groups(host: str, name: str) -> None:
    path = ("cloud", "hypervisors", 0) if host == "hypervisors" else ("cloud", "kolla", "controllers", 0)
    assert refused("kolla", name, *path) == [kolla_groups()[name]]
    assert refused("kolla", f"{name}-1", *path) == []
