"""What the site model hands to the roles of the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.cluster_login import CLIENT
from strata.inventory import Template, kubernetes
from strata.inventory.role_variables import role_host_variables, role_variables
from strata.models.platform import ExternalIssuer, Ingress, IngressCertificate
from strata.models.site import Site
from strata.roles import MONITORING_PODS, POD_CLIENTS, roles
from strata.site.host_list import api_host, hosts, running_roles
from strata.site.outputs import CloudOutputs, ImageOutputs, InstanceOutput
from strata.site.paths import REPOSITORY, SitePaths
from strata.site_file.loader import load_site
from strata.toolchain import load_versions

ROLES = REPOSITORY / "ansible" / "roles"
CLUSTER = ("kubernetes_common", "pod_network", "kube_control_plane", "kube_node", "gpu_node")


@pytest.fixture
def site() -> Site:
    return load_site(REPOSITORY / "inventories" / "lab" / "site.yaml")


@pytest.fixture(autouse=True)
def directories(state_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))


def outputs(*roles: tuple[str, ...]) -> CloudOutputs:
    instances = {
        f"host-{n}": InstanceOutput(
            id=str(n), name=f"host-{n}", address=f"10.77.0.{10 + n}", flavor="cpu.small", roles=own
        )
        for n, own in enumerate(roles)
    }
    return CloudOutputs(instances=instances, networks={})


LAB = (("postgresql", "kine", "registry"), ("kube_control_plane",), ("kube_node", "gpu_node"))


def options(role: str) -> set[str]:
    specification = yaml.safe_load((ROLES / role / "meta" / "argument_specs.yml").read_text())
    return set(specification["argument_specs"]["main"]["options"])


def required(role: str) -> set[str]:
    specification = yaml.safe_load((ROLES / role / "meta" / "argument_specs.yml").read_text())
    return {k for k, v in specification["argument_specs"]["main"]["options"].items() if v.get("required")}


def test_roles_get_what_they_declare_and_nothing_else(site: Site) -> None:
    given = set[str]().union(*(role_variables(role, site, outputs(*LAB)) for role in CLUSTER))
    declared = set[str]().union(*(options(role) for role in CLUSTER))
    needed = set[str]().union(*(required(role) for role in CLUSTER))
    assert given <= declared
    assert needed <= given


@pytest.mark.parametrize("role", CLUSTER)
def test_defaults_are_declared(role: str) -> None:
    defaults = yaml.safe_load((ROLES / role / "defaults" / "main.yml").read_text())
    assert set(defaults) <= options(role)
    assert all(key.startswith(f"{role}_") for key in defaults)


def test_the_datastore_is_kine_over_tls(site: Site) -> None:
    datastore = role_variables("kube_control_plane", site, outputs(*LAB))["kube_control_plane_datastore"]
    assert isinstance(datastore, dict)
    assert datastore["endpoints"] == ["https://10.77.0.10:2379"]
    assert isinstance(datastore["private_key"], Template)
    assert "strata_certificate" in datastore["private_key"].expression


def login(site: Site, **platform: object) -> dict[str, Any]:
    """What the API server knows of the issuer."""
    changed = site.model_copy(update={"platform": site.platform.model_copy(update=platform)})
    cloud = outputs(("load_balancer", "postgresql", "kine", "registry"), *LAB[1:])
    variable = role_variables("kube_control_plane", changed, cloud)["kube_control_plane_issuer"]
    assert isinstance(variable, dict)
    return variable


def test_the_api_server_trusts_the_sites_issuer(site: Site) -> None:
    settings = login(site)
    assert settings["url"].startswith("https://login.lab.strata.test/")
    assert settings["ca"].expression == "{{ lookup('strata_ca') }}"
    # not by a name server, which knows the site's names only where the organisation reports it
    assert settings["host_aliases"] == [{"ip": "10.77.0.10", "hostnames": ["login.lab.strata.test"]}]


def test_the_api_server_trusts_an_external_issuer(site: Site) -> None:
    issuer = ExternalIssuer(url="https://login.example.org/realms/ml", ca_file="ca.pem", audience="ml-hub")
    services = site.platform.services.model_copy(update={"external_issuer": issuer})
    settings = login(site, services=services)
    assert settings["url"] == issuer.url
    assert "'ca.pem'" in settings["ca"].expression
    assert settings["host_aliases"] == []
    # ID tokens are for the client that requested them
    assert settings["audience"] == CLIENT


def test_the_api_server_trusts_the_certificate_of_the_ingress(site: Site) -> None:
    public = IngressCertificate(source="acme", email="operators@example.org")
    assert login(site, ingress=Ingress(certificate=public))["ca"] == ""


def test_without_an_issuer_there_is_none(site: Site) -> None:
    assert login(site, services=type(site.platform.services)()) == {}


def test_images_come_from_the_sites_registry(site: Site) -> None:
    variables = role_variables("kubernetes_common", site, outputs(*LAB))
    version = load_versions().tools["pause"].version
    assert variables["kubernetes_common_pause_image"] == f"registry.lab.strata.test:5000/kubernetes/pause:{version}"
    registry = variables["kubernetes_common_registry"]
    assert isinstance(registry, dict)
    assert (registry["name"], registry["endpoint"]) == ("registry.lab.strata.test:5000", "https://10.77.0.10:5000")


def test_pushed_images_name_the_folder(site: Site) -> None:
    reference = "registry.lab.strata.test:5000/kubernetes/0123456789ab/kube-apiserver@sha256:" + "0" * 64
    ImageOutputs(images={"kube-apiserver": reference}).save(SitePaths(site.name).create())
    expected = "registry.lab.strata.test:5000/kubernetes/0123456789ab"
    assert kubernetes.image_repository(site, outputs(*LAB)) == expected
    variables = role_variables("kube_control_plane", site, outputs(*LAB))
    assert variables["kube_control_plane_image_repository"] == expected


def test_without_a_registry_images_come_from_upstream(site: Site) -> None:
    variables = role_variables("kubernetes_common", site, outputs(("kine",), ("kube_control_plane",)))
    assert variables["kubernetes_common_registry"] == {}
    assert str(variables["kubernetes_common_pause_image"]).startswith("registry.k8s.io/pause:")


def test_gpu_nodes_are_marked_as_in_the_site_file(site: Site) -> None:
    assert site.cluster is not None
    variables = role_variables("gpu_node", site, outputs(*LAB))
    host = next(i.name for i in site.cloud.instances if "gpu_node" in i.roles) if site.cloud else ""
    labels = role_host_variables("gpu_node", site, host)["kube_node_labels"]
    assert labels == {**site.cluster.gpu_nodes.labels, "strata.dev/accelerator.v100": "true"}
    assert variables["kube_node_taints"] == list(site.cluster.gpu_nodes.taints)


def machine_with(cards: dict[str, int], **marks: object) -> Site:
    """A site of one machine that is a GPU node, beside a control plane."""
    node = {"name": "gpu-1", "address": "192.0.2.2", "roles": ["kube_node", "gpu_node"], "accelerators": cards}
    control = {"name": "control-1", "address": "192.0.2.1", "roles": ["kube_control_plane"]}
    content = {
        **{
            "name": "metal",
            "domain": "metal.example.org",
            "access": {"ssh": ["192.0.2.1/32"]},
            "hosts": {"machines": [control, node]},
        },
        "cluster": {"name": "metal", "datastore": "etcd", "gpu_nodes": marks},
    }
    return Site.model_validate(content)


@pytest.mark.parametrize(
    ("cards", "marks", "driver"),
    [
        ({"v100": 2}, {}, {"branch": 580, "open_kernel_modules": False, "gpus": 2}),
        ({"t4": 1, "a100": 2}, {"driver_branch": 595}, {"branch": 595, "open_kernel_modules": True, "gpus": 3}),
        # the proprietary modules drive both
        ({"gtx1080ti": 4, "rtx2080ti": 4}, {}, {"branch": 580, "open_kernel_modules": False, "gpus": 8}),
        ({"u50": 2}, {}, None),
    ],
)
def test_real_gpus_get_their_driver(cards: dict[str, int], marks: dict[str, int], driver: dict[str, object]) -> None:
    variables = role_host_variables("gpu_node", machine_with(cards, **marks), "gpu-1")
    assert variables.get("gpu_node_driver") == driver
    assert variables.get("kubernetes_common_nvidia_runtime", False) == (driver is not None)


def test_instances_that_a_node_must_have() -> None:
    pool = {"name": "small", "nodes": ["gpu-1"], "sharing": {"mig": "3g.20gb"}}
    site = machine_with({"a100": 2}, pools=[pool])
    variables = role_host_variables("gpu_node", site, "gpu-1")
    driver = {"branch": 580, "open_kernel_modules": True, "gpus": 2, "mig_profile": "3g.20gb", "mig_instances": 4}
    assert variables["gpu_node_driver"] == driver
    labels = variables["kube_node_labels"]
    assert isinstance(labels, dict)
    assert labels["nvidia.com/device-plugin.config"] == "small"


def test_the_labs_accelerators_have_no_driver(site: Site) -> None:
    assert set(role_host_variables("gpu_node", site, "gpu-worker-1")) == {"kube_node_labels"}
    versions = role_variables("gpu_node", site, None)["gpu_node_versions"]
    assert isinstance(versions, dict)
    assert set(versions) == {"container-toolkit", "cuda-keyring"}


@pytest.mark.parametrize(
    ("address", "url"), [("10.0.0.1", "https://10.0.0.1:2379"), ("2001:db8::1", "https://[2001:db8::1]:2379")]
)
def test_endpoints(address: str, url: str) -> None:
    assert kubernetes.endpoint(address, 2379) == url


def test_pods_reach_every_port_that_roles_open_to_them(site: Site) -> None:
    assert site.cloud is not None
    cloud = outputs(*(tuple(instance.roles) for instance in site.cloud.instances))
    expected = {
        (host.address, port)
        for host in hosts(site, cloud)
        for role in running_roles(site, host.roles)
        for client in POD_CLIENTS
        for port in roles()[role].ports_for(client)
    }
    services = role_variables("pod_network", site, cloud)["pod_network_host_services"]
    assert isinstance(services, list)
    assert {(service["address"], service["port"]) for service in services} == expected
    assert len(services) == len(expected)
    come_along = {name for name, role in roles().items() if role.runs_on == "all" and role.ports_for(MONITORING_PODS)}
    assert come_along, "no role that comes with every host opens a port to pods: the test shows less than it should"


def test_ports_of_hosts_are_for_the_namespaces_that_need_them(site: Site) -> None:
    """The database for those with a database, exporters and kubelets for Prometheus; no tenant is among them."""
    assert site.cloud is not None
    cloud = outputs(*(tuple(instance.roles) for instance in site.cloud.instances))
    services: Any = role_variables("pod_network", site, cloud)["pod_network_host_services"]
    admitted: dict[int, set[tuple[str, ...] | None]] = {}
    for service in services:
        namespaces = service.get("namespaces")
        admitted.setdefault(service["port"], set()).add(None if namespaces is None else tuple(namespaces))
    assert admitted[5432] == {("jupyterhub", "strata-system")}
    assert admitted[9100] == admitted[10250] == {("monitoring",)}
    assert admitted[443] == admitted[6443] == {None}
    assert not {tenant.name for tenant in site.platform.tenants} & {
        name for own in admitted.values() for names in own for name in names or ()
    }


SITES = sorted((REPOSITORY / "inventories").glob("*/site.yaml"))


@pytest.mark.parametrize("file", SITES, ids=lambda f: f.parent.name)
def test_every_site_has_variables_before_its_cloud_is_up(file: Path) -> None:
    other = load_site(file)
    for role in CLUSTER:
        assert isinstance(role_variables(role, other, None), dict)


CAMPUS = (("registry", "load_balancer"), ("kine",), *([("kube_control_plane",)] * 3), ("kube_node",))


def test_several_control_planes_have_the_load_balancers_address() -> None:
    """Certificates, kubeconfigs and outputs name it; one control plane is reached at its own."""
    campus = load_site(REPOSITORY / "inventories" / "campus" / "site.yaml")
    cloud = outputs(*CAMPUS)
    assert role_variables("kube_control_plane", campus, cloud)["kube_control_plane_api_address"] == "10.77.0.10"
    servers = role_variables("load_balancer", campus, cloud)["load_balancer_api_servers"]
    assert servers == {"host-2": "10.77.0.12", "host-3": "10.77.0.13", "host-4": "10.77.0.14"}
    host = api_host(campus, cloud)
    assert host is not None
    assert host.name == "host-0"


def test_one_control_plane_is_reached_at_its_own_address(site: Site) -> None:
    cloud = outputs(*LAB, ("load_balancer",))
    assert "kube_control_plane_api_address" not in role_variables("kube_control_plane", site, cloud)
    assert role_variables("load_balancer", site, cloud)["load_balancer_api_servers"] == {}
    host = api_host(site, cloud)
    assert host is not None
    assert host.name == "host-1"
