"""The declaration of JupyterHub: its values, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from strata.catalogue.service import Service
from strata.catalogue.site_services import batch_server
from strata.platform.releases import PlatformState, releases
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata.toolchain import charts
from strata_bench.module_file import load_module
from strata_services.jupyterhub.needs import METRICS, VERIFY_USER
from strata_services.jupyterhub.service import SERVICE

ValuesOf = Callable[[Service[Any], Path], dict[str, Any]]
LabWith = Callable[..., Path]
STANDARD = {"name": "standard", "memory": "1 GiB", "guaranteed_memory": "256 MiB"}
CARD = {"name": "v100", "title": "One V100", "memory": "2 GiB", "accelerators": {"v100": 1}, "tenants": ["research"]}


@pytest.fixture
def site_file(lab_with: LabWith) -> Path:
    """The lab with two profiles."""
    return lab_with(SERVICE, profiles=[STANDARD, CARD])


def test_profiles_are_kubespawners(values_of: ValuesOf, site_file: Path) -> None:
    standard, card = values_of(SERVICE, site_file)["singleuser"]["profileList"]
    override = standard["kubespawner_override"]
    assert (override["mem_limit"], override["mem_guarantee"]) == (2**30, 2**28)
    assert "extra_resource_limits" not in override
    assert (card["slug"], card["display_name"]) == ("v100", "One V100")
    assert card["kubespawner_override"]["extra_resource_limits"] == {"nvidia.com/gpu": "1"}
    assert card["kubespawner_override"]["tolerations"], "the lab's GPU nodes are tainted"


def test_profiles_show_what_a_server_has(values_of: ValuesOf, lab_with: LabWith) -> None:
    named = {"name": "small", "memory": "512 MiB", "cpu": 1, "description": "For courses."}
    profiles = values_of(SERVICE, lab_with(SERVICE, profiles=[STANDARD, CARD, named]))["singleuser"]["profileList"]
    assert {profile["slug"]: profile["description"] for profile in profiles} == {
        "standard": "2 CPUs, 1 GiB of memory; image jupyterhub-notebook.",
        "v100": "2 CPUs, 2 GiB of memory, 1 × v100; image jupyterhub-notebook.",
        "small": "For courses. 1 CPU, 512 MiB of memory; image jupyterhub-notebook.",
    }


def test_hub_may_read_which_accelerators_are_free(state: Callable[[Path], PlatformState], site_file: Path) -> None:
    site_state = state(site_file)
    (release,) = (release for release in releases(site_state.site) if release.name == "namespace-jupyterhub")
    assert release.values(site_state) == {"namespace": "jupyterhub", "podSecurity": "restricted", "reader": "hub"}


def test_hubs_pages_show_when_servers_stop(values_of: ValuesOf, lab_with: LabWith) -> None:
    site_file = lab_with(SERVICE, culling={"idle_seconds": 90, "maximum_age_seconds": 86400})
    variables = values_of(SERVICE, site_file)["hub"]["config"]["JupyterHub"]["template_vars"]
    text = "Your server stops after 90 s without activity, and 1440 min after its start. Files in your home stay."
    assert variables == {"announcement": text}


def test_servers_beyond_the_maximum_queue(values_of: ValuesOf, lab_with: LabWith, site_file: Path) -> None:
    """The chart's own limit would refuse them."""
    assert values_of(SERVICE, site_file)["custom"]["maximumServers"] == 0
    values = values_of(SERVICE, lab_with(SERVICE, maximum_servers=20))
    assert values["custom"]["maximumServers"] == 20
    assert "activeServerLimit" not in values["hub"]


def test_restricted_profiles_name_groups_of_the_issuer(values_of: ValuesOf, site_file: Path) -> None:
    access = values_of(SERVICE, site_file)["custom"]["profileAccess"]
    assert access == {"v100": {"users": [VERIFY_USER], "groups": ["/tenants/research"]}}


def test_no_value_is_a_secret(values_of: ValuesOf, site_file: Path, fake_secrets: Any) -> None:
    text = json.dumps(values_of(SERVICE, site_file))
    values = [value for name, value in fake_secrets.stored.items() if name.startswith("jupyterhub_")]
    assert len(values) >= 5
    assert not [value for value in values if value in text]


def test_hub_names_entries_of_its_secret(context_of: Callable[..., Any], values_of: ValuesOf, site_file: Path) -> None:
    data = context_of(SERVICE, site_file).secret_data()
    hub = values_of(SERVICE, site_file)["hub"]
    assert hub["existingSecret"] == "jupyterhub-secrets"
    for entry in ("hub.config.JupyterHub.cookie_secret", "hub.config.CryptKeeper.keys",
                  "hub.config.ConfigurableHTTPProxy.auth_token", "hub.services.verify.apiToken"):  # fmt: skip
        assert len(bytes.fromhex(data[entry])) == 32
    for variable in ("PGPASSWORD", "OAUTH_CLIENT_SECRET"):
        assert hub["extraEnv"][variable]["valueFrom"]["secretKeyRef"]["key"] in data


def test_members_of_the_sites_tenants_log_in(values_of: ValuesOf, site_file: Path) -> None:
    login = values_of(SERVICE, site_file)["hub"]["config"]["GenericOAuthenticator"]
    assert login["allowed_groups"] == ["/tenants/research", "/tenants/teaching"]
    assert login["oauth_callback_url"] == "https://jupyter.lab.strata.test/hub/oauth_callback"


def test_objects_are_closed(objects_of: Callable[..., list[dict[str, Any]]], site_file: Path) -> None:
    objects = {(o["kind"], o["metadata"]["name"]): o for o in objects_of(SERVICE, site_file)}
    users = objects["NetworkPolicy", "singleuser"]["spec"]
    blocks = [to["ipBlock"] for rule in users["egress"] for to in rule.get("to", ()) if "ipBlock" in to]
    assert "169.254.169.254/32" in next(b for b in blocks if b["cidr"] == "0.0.0.0/0")["except"]
    assert not [b for b in blocks if b["cidr"] == "169.254.169.254/32"]
    (proxy,) = (r for r in objects["NetworkPolicy", "proxy"]["spec"]["ingress"] if "namespaceSelector" in r["from"][0])
    assert proxy["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "traefik"}
    for name in ("hub", "proxy"):
        pod = objects["Deployment", name]["spec"]["template"]["spec"]
        security = [pod.get("securityContext", {}), pod["containers"][0]["securityContext"]]
        for key, value in {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}.items():
            assert value in [context.get(key) for context in security], (name, key)
        assert security[1]["readOnlyRootFilesystem"] is True


def test_substitute_makes_what_upstreams_chart_makes(
    objects_of: Callable[..., list[dict[str, Any]]], values_of: ValuesOf, site_file: Path, monkeypatch: Any
) -> None:
    """Where zero-to-jupyterhub's chart was fetched: the same objects, containers, services and network policies."""
    (chart,) = (c for c in charts.report() if c.name == SERVICE.name)
    if chart.source not in ("mirror", "release"):
        pytest.skip(f"zero-to-jupyterhub's chart is not in the cache: {chart.note}")
    real = {_key(o): o for o in objects_of(SERVICE, site_file)}
    monkeypatch.setattr(charts, "report", lambda _: [replace(chart, path=charts.SUBSTITUTES / SERVICE.name)])
    own = {_key(o): o for o in objects_of(SERVICE, site_file)}
    assert real.keys() - own.keys() <= {("ServiceAccount", "continuous-image-puller"), ("Secret", "hub")}
    assert own.keys() <= real.keys()
    for key in own:
        if key[0] == "NetworkPolicy":
            assert _rules(own[key]) <= _rules(real[key]), key
        if key[0] == "Deployment":
            one, other = (o[key]["spec"]["template"]["spec"]["containers"][0] for o in (own, real))
            for field in ("image", "args", "command", "ports", "securityContext", "resources"):
                assert one.get(field) == other.get(field), (key, field)


def _key(item: dict[str, Any]) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def _rules(policy: dict[str, Any]) -> set[str]:
    spec = policy["spec"]
    return {json.dumps([way, rule], sort_keys=True) for way in ("ingress", "egress") for rule in spec[way]}


REFUSED = {
    "duplicate": ([STANDARD, STANDARD | {"cpu": 1}], "duplicate: standard"),
    "tenant": ([STANDARD, CARD | {"tenants": ["nobody"]}], "the site has no tenant nobody"),
    "tenant without cards": (
        [STANDARD, CARD | {"tenants": ["teaching"]}],
        "names teaching, whose quota has 0 × v100; a server of the profile needs 1",
    ),
    "kind": ([STANDARD, CARD | {"accelerators": {"a100": 1}}], "a100"),
    "too many": ([STANDARD, CARD | {"accelerators": {"v100": 3}}], "v100"),
    "two kinds": ([STANDARD, CARD | {"accelerators": {"v100": 1, "t4": 1}}], "at most 1"),
    "memory": ([STANDARD | {"guaranteed_memory": "2 GiB"}], "is more than memory"),
    "cpu": ([STANDARD | {"guaranteed_millicpus": 3000}], "is more than cpu"),
    "none": ([], "at least 1"),
}


@pytest.mark.parametrize(("profiles", "why"), REFUSED.values(), ids=REFUSED)
def test_wrong_profiles_are_refused(lab_with: LabWith, profiles: list[Any], why: str) -> None:
    with pytest.raises(SiteError) as raised:
        load_site(lab_with(SERVICE, profiles=profiles))
    assert why in str(raised.value)


@pytest.fixture(scope="module")
def module() -> ModuleType:
    """What the hub's image adds to its configuration."""
    return load_module(SERVICE.folder / "images" / "hub" / "src" / "strata_hub" / "__init__.py", "strata_hub")


def test_users_choose_from_their_profiles(module: ModuleType) -> None:
    profiles = [{"slug": "standard"}, {"slug": "v100"}]
    access = {"v100": {"users": ["ada"], "groups": ["/tenants/research"]}}

    def slugs(user: str, *groups: str) -> list[str]:
        return [profile["slug"] for profile in module.allowed(profiles, access, user, set(groups))]

    assert slugs("eve") == slugs("eve", "/tenants/biology") == ["standard"]
    assert slugs("ada") == slugs("eve", "/tenants/research") == ["standard", "v100"]


def test_default_is_the_first_profile_of_the_user(module: ModuleType) -> None:
    profiles = [{"slug": "v100", "default": True}, {"slug": "standard"}]
    access = {"v100": {"users": [], "groups": ["/tenants/research"]}}
    assert module.allowed(profiles, access, "eve", set()) == [{"slug": "standard", "default": True}]


def test_user_without_profile_starts_nothing(module: ModuleType) -> None:
    class User:
        name = "eve"
        groups: tuple[Any, ...] = ()

    class Spawner:
        user = User()

    of = module.profile_list([{"slug": "v100"}], {"v100": {"users": [], "groups": []}})
    with pytest.raises(module.ProfileError):
        of(Spawner())


TENANTS = [{"name": name, "group": f"/tenants/{name}"} for name in ("physics", "biology")]
ACCESS = {"v100": {"users": ["ada"], "groups": ["/tenants/biology", "/guests"]}}


def labels_of(module: ModuleType, profile: str | None, *groups: str, before: dict[str, str] | None) -> dict[str, str]:
    user = SimpleNamespace(name="ada", groups=[SimpleNamespace(name=group) for group in groups])
    spawner = SimpleNamespace(user=user, user_options={} if profile is None else {"profile": profile})
    pod = SimpleNamespace(metadata=SimpleNamespace(labels=before))
    label = module.tenant_label(TENANTS, [{"slug": "standard"}, {"slug": "v100"}], ACCESS)
    labels: dict[str, str] = label(spawner, pod).metadata.labels
    return labels


@pytest.mark.parametrize(
    ("profile", "groups", "expected"),
    [
        ("standard", ["/tenants/biology"], "biology"),
        ("standard", ["/tenants/biology", "/tenants/physics"], "physics"),
        (None, ["/tenants/biology", "/tenants/physics"], "physics"),
        ("v100", ["/tenants/biology", "/tenants/physics"], "biology"),
        ("v100", ["/tenants/physics"], "physics"),
        ("v100", ["/guests"], None),
        ("standard", ["/tenants/stolen", "/tenants/physics/admins"], None),
        ("standard", [], None),
    ],
)
def test_pods_have_the_label_of_their_users_tenant(
    module: ModuleType, profile: str | None, groups: list[str], expected: str | None
) -> None:
    for before in (None, {"app": "jupyterhub", module.TENANT_LABEL: "forged"}):
        labels = labels_of(module, profile, *groups, before=before)
        assert labels.get(module.TENANT_LABEL) == expected
        assert labels.get("app") == (before or {}).get("app")


def test_hub_knows_the_sites_tenants(values_of: ValuesOf, site_file: Path) -> None:
    values = values_of(SERVICE, site_file)
    tenant, other = values["custom"]["tenants"]
    assert (tenant["name"], tenant["group"]) == ("research", "/tenants/research")
    assert (other["name"], other["limits"]["accelerators"]) == ("teaching", {})
    assert tenant["limits"] == {"cpu": 8, "memory": 16 * 2**30, "accelerators": {"v100": 1}, "images": []}
    assert values["custom"]["accelerators"]["v100"]["resource"] == "nvidia.com/gpu"
    assert values["hub"]["loadRoles"]["configure-research"] == {
        "groups": ["/tenants/research/admins"],
        "scopes": ["custom:tenant-configuration:research"],
    }


def test_only_prometheus_reaches_the_hubs_metrics(
    objects_of: Callable[..., list[dict[str, Any]]], site_file: Path
) -> None:
    objects = {(o["kind"], o["metadata"]["name"]): o for o in objects_of(SERVICE, site_file)}
    rules = objects["NetworkPolicy", "hub"]["spec"]["ingress"]
    (rule,) = (rule for rule in rules if {"port": METRICS.port, "protocol": "TCP"} in rule["ports"])
    assert [peer["podSelector"]["matchLabels"] for peer in rule["from"]] == [{"app.kubernetes.io/name": "prometheus"}]
    annotations = objects["Deployment", "hub"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(METRICS.port)


def test_pods_reach_the_pool_and_its_issuer_of_tokens_only(
    objects_of: Callable[..., list[dict[str, Any]]], site_file: Path
) -> None:
    policies = {
        o["metadata"]["name"]: o["spec"] for o in objects_of(SERVICE, site_file) if o["kind"] == "NetworkPolicy"
    }

    def ports(policy: str) -> list[int]:
        rules = [rule for rule in policies[policy]["egress"] if "htcondor" in json.dumps(rule)]
        return [port["port"] for rule in rules for port in rule["ports"]]

    queues = batch_server(load_site(site_file))
    assert queues is not None
    schedds = sorted(schedd.port for schedd in queues.schedds.values())
    assert (ports("singleuser"), ports("hub"), ports("proxy")) == (schedds, [8080], [])


def test_hub_has_the_secret_for_tokens_and_servers_have_none(
    context_of: Callable[..., Any], values_of: ValuesOf, site_file: Path, fake_secrets: Any
) -> None:
    values = values_of(SERVICE, site_file)
    data = context_of(SERVICE, site_file).secret_data()
    reference = values["hub"]["extraEnv"]["BATCH_TOKEN_SECRET"]["valueFrom"]["secretKeyRef"]
    assert data[reference["key"]] == fake_secrets.stored["htcondor_token_secret"]
    assert data[reference["key"]] not in json.dumps(values)
    queues = batch_server(load_site(site_file))
    assert queues is not None
    assert values["custom"]["batch"]["schedds"] == {name: schedd.address for name, schedd in queues.schedds.items()}
    assert values["custom"]["batch"]["users"] == {VERIFY_USER: "research"}


def test_site_without_a_batch_system_has_nothing_of_it(values_of: ValuesOf, site_file: Path) -> None:
    content = yaml.safe_load(site_file.read_text())
    del content["platform"]["services"]["htcondor"]
    site_file.write_text(yaml.safe_dump(content))
    values = values_of(SERVICE, site_file)
    text = json.dumps(values).lower()
    assert "batch" not in text
    assert "condor" not in text
    own = {"JUPYTERHUB_ACTIVITY_INTERVAL", "HF_ENDPOINT", "HF_HUB_DISABLE_XET"}
    assert values["singleuser"]["extraEnv"].keys() == own


def test_notebooks_have_the_hubs_version() -> None:
    """Another version of JupyterHub in a notebook may not speak the hub's API."""
    images = SERVICE.folder / "images"
    versions = {
        line
        for image in ("hub", "notebook")
        for line in (images / image / "pyproject.toml").read_text().splitlines()
        if '"jupyterhub==' in line
    }
    assert len(versions) == 1
    chart = yaml.safe_load((SERVICE.folder.parents[1] / "lab" / "charts" / "jupyterhub" / "Chart.yaml").read_text())
    assert f'"jupyterhub=={chart["appVersion"]}"' in versions.pop()


def test_private_networks_are_closed_but_for_those_that_are_named(values_of: ValuesOf, lab_with: LabWith) -> None:
    def egress(**settings: Any) -> list[dict[str, Any]]:
        policy = values_of(SERVICE, lab_with(SERVICE, **settings))["singleuser"]["networkPolicy"]
        assert policy["egressAllowRules"]["privateIPs"] is False
        rules: list[dict[str, Any]] = policy["egress"]
        return rules

    opened = egress(datasets={"networks": ["10.20.0.0/24"]})
    (rule,) = (rule for rule in opened if rule not in egress())
    assert rule["to"] == [{"ipBlock": {"cidr": "10.20.0.0/24"}}]
    assert [port["port"] for port in rule["ports"]] == [443]
