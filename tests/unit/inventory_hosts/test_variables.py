"""Role variables of the hosts layer, from a site and the cloud layer's outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.needs import Hostname
from strata.catalogue.published import published
from strata.catalogue.site_services import needed
from strata.catalogue.site_volumes import service_volumes
from strata.inventory import Template
from strata.inventory.clients import pull_users
from strata.inventory.role_variables import role_host_variables, role_variables
from strata.inventory.topology import database_secret, host_networks
from strata.models.site import Site
from strata.site.host_list import address_of
from strata.site.outputs import CloudOutputs, InstanceOutput
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site

LAB = REPOSITORY / "inventories" / "lab" / "site.yaml"
ACCESS = {"ssh": ["192.0.2.1/32"]}
ROLES = ("base", "nfs_server", "postgresql", "kine", "registry", "load_balancer")


@pytest.fixture(scope="module")
def site() -> Site:
    return load_site(LAB)


@pytest.fixture(scope="module")
def outputs(site: Site) -> CloudOutputs:
    assert site.cloud is not None
    instances = {
        i.name: InstanceOutput(
            id=i.name, name=i.name, address=f"10.77.0.{n}", flavor=str(i.flavor), roles=tuple(i.roles)
        )
        for n, i in enumerate(site.cloud.instances, start=11)
    }
    return CloudOutputs(instances=instances, networks={})


def machines_site(tmp_path: Path, machines: list[dict[str, object]], **more: object) -> Site:
    """A site without a cloud."""
    file = tmp_path / "site.yaml"
    content = {"name": "metal", "domain": "metal.example", "access": ACCESS, "hosts": {"machines": machines}, **more}
    file.write_text(yaml.safe_dump(content))
    return load_site(file)


def variables(role: str, site: Site, outputs: CloudOutputs | None) -> dict[str, Any]:
    return dict(role_variables(role, site, outputs))


@pytest.mark.parametrize("role", ROLES)
def test_variables_are_arguments_of_the_role(role: str, site: Site, outputs: CloudOutputs) -> None:
    specification = yaml.safe_load(
        (REPOSITORY / "ansible" / "roles" / role / "meta" / "argument_specs.yml").read_text()
    )
    options = specification["argument_specs"]["main"]["options"]
    assert set(variables(role, site, outputs)) <= set(options)
    required = {name for name, option in options.items() if option.get("required")}
    defaults = yaml.safe_load((REPOSITORY / "ansible" / "roles" / role / "defaults" / "main.yml").read_text())
    # defaults that only say the type do not satisfy a required argument
    given = set(variables(role, site, outputs)) | {name for name, value in defaults.items() if value}
    assert required <= given


def every_option(options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The options, and those below them."""
    for option in options.values():
        yield option
        yield from every_option(option.get("options", {}))


@pytest.mark.parametrize("role", ROLES)
def test_every_default_is_a_described_argument(role: str) -> None:
    root = REPOSITORY / "ansible" / "roles" / role
    options = yaml.safe_load((root / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((root / "defaults" / "main.yml").read_text())
    assert set(defaults) == set(options)
    assert all(option.get("description") for option in options.values())
    # a comma in an unquoted text of a flow mapping makes a key of what follows
    known = {"type", "elements", "required", "default", "choices", "description", "options"}
    assert {key for option in every_option(options) for key in option} <= known


@pytest.mark.parametrize("role", ROLES)
def test_variables_are_there_before_the_cloud(role: str, site: Site) -> None:
    assert variables(role, site, None)


def test_secrets_and_certificates_are_lookups_not_values(site: Site, outputs: CloudOutputs) -> None:
    databases = {d["name"]: d for d in variables("postgresql", site, outputs)["postgresql_databases"]}
    assert databases["ml_hub"]["password"] == Template("{{ lookup('strata_secret', 'ml_hub_database_password') }}")
    assert variables("kine", site, outputs)["kine_database"]["password"] == databases["kine"]["password"]
    for role in ("postgresql", "kine", "registry"):
        certificate = variables(role, site, outputs)[f"{role}_certificate"]
        assert isinstance(certificate, Template)
        assert "lookup('strata_certificate'" in certificate.expression
    assert database_secret("ml_hub") == "ml_hub_database_password"


def test_names_of_services_lead_to_the_load_balancer(site: Site, outputs: CloudOutputs) -> None:
    names = {n["name"]: n["address"] for n in variables("base", site, outputs)["base_service_names"]}
    hostnames = {need.host(site) for _, need in needed(site, Hostname)}
    assert site.domain in hostnames, "the front page has no host name"
    assert {service.host for service in published(site)} == hostnames
    for name in hostnames:
        assert names[name] == address_of("load_balancer", site, outputs)
    assert variables("kube_control_plane", site, outputs)["kube_control_plane_names"] == [
        {"name": name, "address": address} for name, address in names.items()
    ]


def test_the_load_balancer_forwards_to_nodes_without_taints(site: Site, outputs: CloudOutputs) -> None:
    nodes = {i.name: i.address for i in outputs.instances.values()}
    assert variables("load_balancer", site, outputs)["load_balancer_backends"] == [nodes["worker-1"]]
    assert site.cluster is not None
    untainted = site.cluster.model_copy(update={"gpu_nodes": site.cluster.gpu_nodes.model_copy(update={"taints": ()})})
    both = variables("load_balancer", site.model_copy(update={"cluster": untainted}), outputs)
    assert both["load_balancer_backends"] == [nodes["worker-1"], nodes["gpu-worker-1"]]


def test_each_database_is_open_to_its_own_clients(site: Site, outputs: CloudOutputs) -> None:
    clients = {d["name"]: d["clients"] for d in variables("postgresql", site, outputs)["postgresql_databases"]}
    assert clients.pop("kine") == ["10.77.0.11/32"]
    nodes_and_pods = ["10.77.0.13/32", "10.77.0.14/32", "10.244.0.0/16"]
    assert clients == dict.fromkeys(clients, nodes_and_pods)
    assert "ml_hub" in clients


def test_exports_are_for_nodes_and_not_for_pods(site: Site, outputs: CloudOutputs) -> None:
    exports = {e["name"]: e for e in variables("nfs_server", site, outputs)["nfs_server_exports"]}
    volumes = {need.name for _, need in service_volumes(site)}
    assert set(exports) == {"data", "tenants", "claims", *volumes}
    assert (exports["claims"]["squash_root"], exports["claims"]["access"]) == (False, "rw")
    for export in exports.values():
        assert export["clients"] == ["10.77.0.13/32", "10.77.0.14/32"]
    for name in ("data", "tenants"):
        assert (exports[name]["squash_root"], exports[name]["access"]) == (True, "rw")
    folders = [{"name": tenant.name, "group_id": tenant.group_id} for tenant in site.platform.tenants]
    assert exports["tenants"]["folders"] == folders
    assert exports["tenants"]["mode"] == "0755"


def test_robots_pull_and_only_the_operator_pushes(tmp_path: Path) -> None:
    site = machines_site(tmp_path, [{"name": "r-1", "address": "192.0.2.5", "roles": ["registry"]}])
    assert pull_users(site) == {"nodes": "registry_nodes_password"}
    data = {"name": "metal", "domain": "metal.example", "access": ACCESS, "hosts": {"registry": {"robots": ["ci"]}}}
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(data))
    robots = load_site(tmp_path / "site.yaml")
    assert pull_users(robots)["robot-ci"] == "registry_robot_ci_password"
    assert "operator" in variables("registry", robots, None)["registry_push_users"].expression
    assert "robot-ci" not in variables("registry", robots, None)["registry_push_users"].expression


def test_kine_asks_the_database_at_its_address_when_it_is_elsewhere(tmp_path: Path) -> None:
    machines: list[dict[str, object]] = [
        {"name": "database-1", "address": "192.0.2.5", "roles": ["postgresql"]},
        {"name": "kine-1", "address": "192.0.2.6", "roles": ["kine"]},
        {"name": "control-1", "address": "192.0.2.7", "roles": ["kube_control_plane"]},
    ]
    site = machines_site(tmp_path, machines, cluster={"name": "metal", "installer": "kubeadm", "datastore": "kine"})
    settings = variables("kine", site, None)
    assert settings["kine_database"]["host"] == "192.0.2.5"
    assert "192.0.2.5" in variables("postgresql", site, None)["postgresql_certificate"].expression
    assert host_networks(site) == ["192.0.2.5/32", "192.0.2.6/32", "192.0.2.7/32"]


def test_a_site_without_platform_publishes_nothing(tmp_path: Path) -> None:
    site = machines_site(tmp_path, [{"name": "balancer-1", "address": "2001:db8::1", "roles": ["load_balancer"]}])
    assert published(site) == ()
    assert variables("load_balancer", site, None)["load_balancer_backends"] == []
    assert host_networks(site) == ["2001:db8::1/128"]


@pytest.mark.parametrize("place", ["machine", "hypervisor of its name"])
def test_a_hypervisor_hands_out_its_cards(tmp_path: Path, place: str) -> None:
    chosen, unused = ["0000:3b:00.0", "0000:5e:00.0"], ["0000:5f:00.0"]
    cards = {"accelerators": {"v100": 2}, "pci_passthrough": {"addresses": chosen, "unused": unused}}
    machine: dict[str, object] = {"name": "gpu01", "address": "192.0.2.9", "roles": ["pci_passthrough"]}
    cloud = yaml.safe_load((REPOSITORY / "inventories/tacc/site.yaml").read_text())["cloud"]
    cloud |= {"hypervisors": [h | (cards if h["name"] == "gpu01" else {}) for h in cloud["hypervisors"]]}
    more = {"cloud": {**cloud, "instances": []}} if place != "machine" else {}
    site = machines_site(tmp_path, [machine | (cards if place == "machine" else {})], **more)
    assert role_host_variables("pci_passthrough", site, "gpu01") == {
        "pci_passthrough_cards": [{"kind": "v100", "id": "10de:1db4", "count": 2}],
        "pci_passthrough_addresses": chosen,
        "pci_passthrough_unused": unused,
    }
