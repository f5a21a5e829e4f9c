"""Values of every release, checked against the charts' schemas and for what they must say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from strata.catalogue.discovery import services
from strata.catalogue.needs.namespace import TenantNamespaces
from strata.catalogue.service import FINGERPRINT_KEY
from strata.catalogue.site_needs import namespaces as service_namespaces
from strata.catalogue.site_services import installed, needed
from strata.errors import UserError
from strata.models.site import Site
from strata.platform import cluster_base, releases, storage_class, tenant
from strata.platform.tenant import memory
from strata.site.outputs import CloudOutputs, ImageOutputs, InstanceOutput
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site
from strata.toolchain import load_versions
from strata_bench.made_up_secrets import MadeUpSecrets

SITES = {file.parent.name: file for file in sorted((REPOSITORY / "inventories").glob("*/site.yaml"))}
CLUSTER_SITES = [name for name, file in SITES.items() if load_site(file).cluster is not None]
DIGEST = "sha256:" + "0" * 64
IMAGES = ImageOutputs(
    images={
        name: f"registry.example.org:5000/strata/{name}@{DIGEST}"
        for name in (
            *(n for service in services() for n in service.image_folders),
            "gpu-device-plugin",
            "pause",
            "pod-base",
            "traefik",
        )
    }
)


def outputs(site: Site) -> CloudOutputs | None:
    """As if every instance existed."""
    if site.cloud is None:
        return None
    instances = {
        i.name: InstanceOutput(id=i.name, name=i.name, address=f"10.0.0.{n}", flavor=i.flavor, roles=tuple(i.roles))
        for n, i in enumerate(site.cloud.instances, 10)
    }
    return CloudOutputs(instances=instances, networks={})


def state_of(file: Path) -> releases.PlatformState:
    """A site as if all its instances ran and all its images were pushed."""
    site = load_site(file)
    return releases.PlatformState(site, file, outputs(site), IMAGES, MadeUpSecrets())


def merged(chart: str, values: dict[str, Any]) -> dict[str, Any]:
    """The chart's defaults with the values on top, as helm merges them."""

    def merge(base: Any, over: Any) -> Any:
        if isinstance(base, dict) and isinstance(over, dict):
            return base | {key: merge(base.get(key), item) for key, item in over.items()}
        return over

    return dict(merge(yaml.safe_load((REPOSITORY / "helm" / chart / "values.yaml").read_text()), values))


def check(chart: str, values: dict[str, Any]) -> None:
    """Raises where the chart's schema refuses the values."""
    schema = json.loads((REPOSITORY / "helm" / chart / "values.schema.json").read_text())
    jsonschema.validate(json.loads(json.dumps(merged(chart, values))), schema)


@pytest.mark.parametrize("name", CLUSTER_SITES)
def test_charts_accept_the_values(name: str) -> None:
    state = state_of(SITES[name])
    for release in releases.releases(state.site):
        if release.chart_source.startswith("helm/"):  # others are in tests/contract
            check(release.chart, release.values(state))


def test_lab_device_plugin_offers_v100_on_tainted_gpu_nodes() -> None:
    site = load_site(SITES["lab"])
    assert site.cluster is not None
    plugin = cluster_base.values(site, site.cluster, outputs(site), IMAGES.images)["devicePlugin"]
    assert plugin["resources"] == [
        {
            "name": "nvidia.com/gpu",
            "environment": "NVIDIA_VISIBLE_DEVICES",
            "devices": [{"vendor": "10de", "device": "1db4"}],
        }
    ]
    assert plugin["nodeSelector"] == {"strata.dev/pool": "gpu"}
    assert plugin["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    ]
    assert plugin["image"] == {"repository": "registry.example.org:5000/strata/gpu-device-plugin", "digest": DIGEST}


@pytest.mark.parametrize(
    ("name", "networks"),
    [("lab", ["10.0.0.11/32"]), ("nautilus", ["192.0.2.11/32", "192.0.2.12/32", "198.51.100.11/32"])],
)
def test_dns_reaches_the_control_plane_alone(name: str, networks: list[str]) -> None:
    """API servers advertise the addresses of their hosts, whatever installed them."""
    site = load_site(SITES[name])
    assert site.cluster is not None
    values = cluster_base.values(site, site.cluster, outputs(site), IMAGES.images)
    assert values["networkPolicies"]["apiServer"] == {"networks": networks}


def test_cards_outside_the_quota_are_forbidden() -> None:
    site = load_site(SITES["lab"])
    research = site.platform.tenants[0]
    assert tenant.values(site, research)["quota"] == {
        "cpu": "8",
        "memory": "16Gi",
        "accelerators": {"nvidia.com/gpu": 1},
        "storage": {"nfs": "2Gi"},
        "forbidden": [],
    }
    without = research.model_copy(update={"quota": research.quota.model_copy(update={"accelerators": {}})})
    assert tenant.values(site, without)["quota"]["forbidden"] == ["nvidia.com/gpu"]


def test_no_secret_is_in_the_values() -> None:
    state = state_of(SITES["lab"])
    made = [release.values(state) for release in releases.releases(state.site)]
    assert isinstance(state.secrets, MadeUpSecrets)
    assert state.secrets.stored
    texts = json.dumps(made)
    assert not [name for name, value in state.secrets.stored.items() if json.dumps(value)[1:-1] in texts]


def test_a_changed_secret_changes_the_pods() -> None:
    state = state_of(SITES["lab"])
    assert isinstance(state.secrets, MadeUpSecrets)
    with_secrets = 0
    for release in releases.releases(state.site):
        before = release.values(state)
        if releases.FINGERPRINT_ANNOTATION in before.get("podAnnotations", {}):
            with_secrets += 1
            for name in state.secrets.stored.keys() - {FINGERPRINT_KEY}:
                state.secrets.stored[name] += " rotated"
            assert release.values(state)["podAnnotations"] != before["podAnnotations"]
    assert with_secrets


def test_memory_keeps_its_exact_size() -> None:
    site = load_site(SITES["lab"])
    size = site.platform.tenants[0].quota.memory
    assert memory(size) == "16Gi"
    assert memory(type(size)(1536 * 2**20)) == "1536Mi"


def test_missing_image_is_named() -> None:
    state = replace(state_of(SITES["lab"]), images=ImageOutputs(images={}))
    named = installed(state.site)[0].name
    with pytest.raises(UserError, match=rf"no image {named} \(it has none\)"):
        next(r for r in releases.releases(state.site) if r.name == named).values(state)


def test_storage_is_out_of_reach_where_the_quota_names_none() -> None:
    site = load_site(SITES["lab"])
    teaching = site.platform.tenants[1]
    assert teaching.quota.storage is None
    assert tenant.values(site, teaching)["quota"]["storage"] == {"nfs": "0"}
    without = site.model_copy(update={"platform": site.platform.model_copy(update={"storage_class": None})})
    assert "storage" not in tenant.values(without, teaching)["quota"]


def test_only_the_lab_uses_the_substitute_for_the_nfs_driver() -> None:
    def release(file: Path) -> releases.Release:
        (chosen,) = (release for release in releases.releases(load_site(file)) if release.chart == storage_class.CHART)
        return chosen

    assert release(SITES["lab"]).substitute
    real = REPOSITORY / "tests/corpus/complete/existing.yaml"
    assert not release(real).substitute
    image = release(real).values(state_of(real))["image"]
    assert image["nfs"]["repository"] == "registry.k8s.io/sig-storage/nfsplugin"
    assert image["substitute"]["repository"] == "registry.example.org:5000/strata/pod-base@sha256"


def test_releases_follow_the_site() -> None:
    site = load_site(SITES["lab"])
    table = releases.releases(site)
    own = [service.name for service in installed(site)]
    names = [r.name for r in table]
    namespaces = {service.namespace_of(site) for service in installed(site)}
    made = [need.release for need in service_namespaces(site)]
    tenants = [tenant.name for tenant in site.platform.tenants]
    per_tenant = [need.release(name) for _, need in needed(site, TenantNamespaces) for name in tenants]
    own_tenants = [f"tenant-{name}" for name in tenants]
    assert {f"namespace-{name}" for name in namespaces - {"strata-system"}} <= set(made)
    assert names == [
        "cluster-base",
        "traefik",
        "csi-driver-nfs",
        *made,
        *own_tenants,
        "shared-volumes",
        *own,
        *per_tenant,
    ]
    assert {r.namespace for r in table} == {"kube-system", "strata-system", "traefik"} | namespaces
    tenant_release = table[names.index("tenant-research")]
    assert tenant_release.namespace == "strata-system", "a tenant's release is stored outside of its namespace"
    for release in table:
        assert release.chart in load_versions().charts or (REPOSITORY / release.chart_source / "Chart.yaml").is_file()
