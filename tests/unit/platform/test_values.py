"""Values of every release, checked against the charts' schemas and for what they must say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from strata.errors import UserError
from strata.models import Site, load_site
from strata.models.platform import ExternalIssuer
from strata.platform import cluster_base, ml_hub, releases, tenant, token_issuer
from strata.platform.values import SecretText, memory
from strata.site.outputs import CloudOutputs, ImageOutputs, InstanceOutput
from strata.site.paths import REPOSITORY

SITES = {file.parent.name: file for file in sorted((REPOSITORY / "inventories").glob("*/site.yaml"))}
CLUSTER_SITES = [name for name, file in SITES.items() if load_site(file).cluster is not None]
DIGEST = "sha256:" + "0" * 64
IMAGES = ImageOutputs(
    images={
        name: f"registry.example.org:5000/strata/{name}@{DIGEST}"
        for name in ("ml-hub", "token-issuer", "gpu-device-plugin", "traefik")
    }
)
CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


class Secrets:
    """A store that makes up what it is asked for."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    @property
    def ca(self) -> str:
        return CA

    def get(self, name: str) -> str:
        return self.kept.setdefault(name, f"generated-{name}")

    def peek(self, name: str) -> str | None:
        return self.kept.get(name)

    def put(self, name: str, value: str) -> None:
        self.kept[name] = value


def outputs(site: Site) -> CloudOutputs | None:
    """As if every instance stood."""
    if site.cloud is None:
        return None
    instances = {
        i.name: InstanceOutput(id=i.name, name=i.name, address=f"10.0.0.{n}", flavor=i.flavor, roles=tuple(i.roles))
        for n, i in enumerate(site.cloud.instances, 10)
    }
    return CloudOutputs(instances=instances, networks={})


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
    site = load_site(SITES[name])
    assert site.cluster is not None
    check("cluster-base", cluster_base.values(site, site.cluster, IMAGES))
    for each in site.platform.tenants:
        check("tenant", tenant.values(site, each))
    services = site.platform.services
    secrets = Secrets()
    if services.token_issuer:
        check("token-issuer", token_issuer.values(site, services.token_issuer, IMAGES, secrets))
    if services.ml_hub and services.issuer:
        values = ml_hub.values(
            site,
            services.ml_hub,
            services.issuer,
            site_file=SITES[name],
            outputs=outputs(site),
            images=IMAGES,
            secrets=secrets,
        )
        check("ml-hub", values)


def test_lab_device_plugin_offers_v100_on_tainted_gpu_nodes() -> None:
    site = load_site(SITES["lab"])
    assert site.cluster is not None
    plugin = cluster_base.values(site, site.cluster, IMAGES)["devicePlugin"]
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


def test_cards_outside_the_quota_are_forbidden() -> None:
    site = load_site(SITES["lab"])
    research = site.platform.tenants[0]
    assert tenant.values(site, research)["quota"] == {
        "cpu": "8",
        "memory": "16Gi",
        "accelerators": {"nvidia.com/gpu": 1},
        "forbidden": [],
    }
    without = research.model_copy(update={"quota": research.quota.model_copy(update={"accelerators": {}})})
    assert tenant.values(site, without)["quota"]["forbidden"] == ["nvidia.com/gpu"]


def test_signing_key_is_made_once_and_kept() -> None:
    secrets = Secrets()
    first = token_issuer.signing_key(secrets)
    assert first.startswith("-----BEGIN PRIVATE KEY-----")
    assert token_issuer.signing_key(secrets) == first


def test_of_the_key_before_only_the_public_part_leaves_the_store() -> None:
    site = load_site(SITES["lab"])
    issuer = site.platform.services.token_issuer
    assert issuer is not None
    secrets = Secrets()
    before = token_issuer.signing_key(secrets)
    secrets.kept |= {token_issuer.PREVIOUS_KEY: before}
    del secrets.kept[token_issuer.SIGNING_KEY]
    values = token_issuer.values(site, issuer, IMAGES, secrets)
    assert values["previousKeys"] == {"previous": token_issuer.public_part(before)}
    assert values["previousKeys"]["previous"].startswith("-----BEGIN PUBLIC KEY-----")
    assert values["signingKey"] != before
    # rotated before it was ever used: it signed nothing
    secrets.put(token_issuer.PREVIOUS_KEY, "generated-by-the-store")
    assert "previousKeys" not in token_issuer.values(site, issuer, IMAGES, secrets)


def test_secrets_are_marked() -> None:
    site = load_site(SITES["lab"])
    issuer, hub = site.platform.services.token_issuer, site.platform.services.ml_hub
    assert issuer is not None
    assert hub is not None
    secrets = Secrets()
    values = token_issuer.values(site, issuer, IMAGES, secrets)
    assert isinstance(values["signingKey"], SecretText)
    assert isinstance(values["clients"]["verify"]["secret"], SecretText)
    values = ml_hub.values(
        site, hub, issuer, site_file=SITES["lab"], outputs=outputs(site), images=IMAGES, secrets=secrets
    )
    assert isinstance(values["database"]["password"], SecretText)
    assert values["database"]["host"] == "10.0.0.10"
    assert values["issuer"]["url"] == "https://login.lab.strata.test"


EXTERNAL = {"url": "https://login.example.org:8443/realms/ml", "jwks_url": "https://keys.example.org/jwks?p=ml"}


def external_values(file: Path) -> dict[str, Any]:
    """Values of ml-hub for a site file with an external issuer."""
    site = load_site(file)
    hub, issuer = site.platform.services.ml_hub, site.platform.services.issuer
    assert hub is not None
    assert isinstance(issuer, ExternalIssuer)
    return ml_hub.values(site, hub, issuer, site_file=file, outputs=outputs(site), images=IMAGES, secrets=Secrets())


def with_external_issuer(tmp_path: Path, **keys: str) -> Path:
    """The lab's site with an issuer outside of it."""
    content = yaml.safe_load(SITES["lab"].read_text())
    del content["platform"]["services"]["token_issuer"]
    content["platform"]["services"]["external_issuer"] = EXTERNAL | keys
    file = tmp_path / "site.yaml"
    file.write_text(yaml.safe_dump(content))
    (tmp_path / "catalogue.json").write_text("[]")
    (tmp_path / "issuer.pem").write_text(CA)
    return file


def test_external_issuer_takes_the_place_of_the_labs(tmp_path: Path) -> None:
    file = with_external_issuer(tmp_path, audience="https://ml.example.org/", ca_file="issuer.pem")
    values = external_values(file)
    check("ml-hub", values)
    assert values["issuer"] == {
        "url": EXTERNAL["url"],
        "audience": "https://ml.example.org/",
        "jwksUrl": EXTERNAL["jwks_url"],
        "ca": CA,
    }
    assert values["networkPolicy"]["egressPorts"] == [443, 8443]
    assert releases.release_names(load_site(file)) == ["cluster-base", "traefik", "tenant-research", "ml-hub"]


def test_external_issuer_by_discovery_needs_its_url_only(tmp_path: Path) -> None:
    file = with_external_issuer(tmp_path)
    file.write_text(file.read_text().replace(f"jwks_url: {EXTERNAL['jwks_url']}", ""))
    values = external_values(file)
    check("ml-hub", values)
    assert values["issuer"] == {"url": EXTERNAL["url"], "audience": "ml-hub"}


def test_missing_image_and_catalogue_are_named(tmp_path: Path) -> None:
    site = load_site(SITES["lab"])
    issuer, hub = site.platform.services.token_issuer, site.platform.services.ml_hub
    assert issuer is not None
    assert hub is not None
    with pytest.raises(UserError, match=r"no image ml-hub \(it has none\)"):
        ml_hub.values(
            site,
            hub,
            issuer,
            site_file=SITES["lab"],
            outputs=outputs(site),
            images=ImageOutputs(images={}),
            secrets=Secrets(),
        )
    with pytest.raises(UserError, match=r"catalogue\.file: .*catalogue\.json: No such file"):
        ml_hub.values(
            site,
            hub,
            issuer,
            site_file=tmp_path / "site.yaml",
            outputs=outputs(site),
            images=IMAGES,
            secrets=Secrets(),
        )


def test_memory_keeps_its_exact_size() -> None:
    site = load_site(SITES["lab"])
    size = site.platform.tenants[0].quota.memory
    assert memory(size) == "16Gi"
    assert memory(type(size)(1536 * 2**20)) == "1536Mi"


def test_release_names_follow_the_site() -> None:
    assert releases.release_names(load_site(SITES["lab"])) == [
        "cluster-base",
        "traefik",
        "tenant-research",
        "token-issuer",
        "ml-hub",
    ]
