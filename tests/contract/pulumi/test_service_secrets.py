"""The Secrets of services on a real API server: applied, changed by others, repaired, rotated, removed."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from strata.access.helm import all_releases
from strata.catalogue.needs import Database, Namespace
from strata.catalogue.site_services import installed, needed
from strata.drift.platform import release_drift, repair_releases, secrets_drift
from strata.models.platform import Ingress, IngressCertificate
from strata.platform.ingress_certificate import NAME
from strata.platform.release_secrets import LABELS, apply_secrets, live_secrets, platform_state, remove_secrets
from strata.platform.releases import releases
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata.site_file.inventories import find_site
from strata_bench.api_server import ApiServer


@pytest.fixture
def site(state_directory: Path, api_server: ApiServer) -> Iterator[SiteContext]:
    """The lab's site with that cluster; its Secrets are removed afterwards."""
    loaded = SiteContext.load(find_site("lab"))
    loaded.paths.create()
    shutil.copyfile(api_server.kubeconfig, loaded.paths.kubeconfig)
    yield loaded
    for namespace, name in live_secrets(loaded):
        api_server.kubectl("delete", "secret", name, "--namespace", namespace)


def drift(site: SiteContext) -> list[tuple[str, str]]:
    """Object and property of each difference."""
    return [(d.object, d.property) for d in secrets_drift(site, [release.name for release in releases(site.site)])]


def test_they_are_applied_once(site: SiteContext, api_server: ApiServer) -> None:
    changed = apply_secrets(site)
    assert changed
    assert apply_secrets(site) == []
    assert drift(site) == []
    (service, need), *_ = needed(site.site, Database)
    arguments = ("get", "secret", service.secret_name, "--namespace", service.namespace_of(site.site))
    applied = json.loads(api_server.kubectl(*arguments, "--output=json"))
    assert base64.b64decode(applied["data"][need.secret]).decode() == site.secrets.get(need.secret)
    assert applied["metadata"]["labels"].items() >= LABELS.items()
    for value in site.secrets.known().values():
        assert value not in json.dumps(applied["metadata"])


def test_what_others_changed_is_seen_and_repaired(site: SiteContext, api_server: ApiServer) -> None:
    apply_secrets(site)
    (service, need), *_ = needed(site.site, Database)
    namespace = service.namespace_of(site.site)
    label = f"release {service.name}: Secret {namespace}/{service.secret_name}"
    patch = ("patch", "secret", service.secret_name, "--namespace", namespace, "--type=merge", "--patch")
    for data, path in (({need.secret: "b3RoZXI="}, f"data.{need.secret}"), ({"added": "b3RoZXI="}, "data.added")):
        api_server.kubectl(*patch, json.dumps({"data": data}))
        assert drift(site) == [(label, path)]
        assert apply_secrets(site) == [f"{namespace}/{service.secret_name}"]
        assert drift(site) == []
        assert apply_secrets(site) == []
    api_server.kubectl("delete", "secret", service.secret_name, "--namespace", namespace)
    assert drift(site) == [(label, "state")]
    assert apply_secrets(site) == [f"{namespace}/{service.secret_name}"]
    assert drift(site) == []


def test_a_rotation_that_waits_for_up_is_not_drift(site: SiteContext) -> None:
    apply_secrets(site)
    (service, need), *_ = needed(site.site, Database)
    site.secrets.rotate(need.secret)
    assert drift(site) == []
    assert apply_secrets(site) == [f"{service.namespace_of(site.site)}/{service.secret_name}"]


def test_those_of_a_service_that_went_are_removed(site: SiteContext) -> None:
    apply_secrets(site)
    assert remove_secrets(site) == []
    (service, _), *_ = needed(site.site, Database)
    services = site.site.platform.services.model_copy(update={service.key: None})
    platform = site.site.platform.model_copy(update={"services": services})
    without = SiteContext(site.site.model_copy(update={"platform": platform}), site.site_file, site.paths)
    assert remove_secrets(without) == [f"{service.namespace_of(site.site)}/{service.secret_name}"]
    assert service.secret_name not in {name for _, name in live_secrets(without)}


def test_a_certificate_is_repaired_renewed_and_removed(site: SiteContext, api_server: ApiServer) -> None:
    """That of the ingress controller, also one that an earlier release applied without labels."""
    secret, label = "traefik/site-certificate", "release traefik: Secret traefik/site-certificate"
    apply_secrets(site)
    where = ("secret", "site-certificate", "--namespace", "traefik")
    assert api_server.kubectl("get", *where, "--output", "jsonpath={.type}") == "kubernetes.io/tls"
    assert drift(site) == []

    api_server.kubectl("patch", *where, "--type=merge", "--patch", json.dumps({"data": {"tls.key": "b3RoZXI="}}))
    assert drift(site) == [(label, "data.tls.key")]
    assert apply_secrets(site) == [secret]
    api_server.kubectl("label", *where, "app.kubernetes.io/managed-by-")
    assert drift(site) == [(label, "state")]
    assert apply_secrets(site) == [secret]
    assert drift(site) == []

    site.secrets.forget_certificate(NAME)
    assert drift(site) == []
    assert apply_secrets(site) == [secret]
    assert apply_secrets(site) == []

    acme = Ingress(certificate=IngressCertificate(source="acme", email="operators@example.org"))
    platform = site.site.platform.model_copy(update={"ingress": acme})
    with_acme = SiteContext(site.site.model_copy(update={"platform": platform}), site.site_file, site.paths)
    assert remove_secrets(with_acme) == [secret]
    assert drift(with_acme) == []


def test_helm_adopts_a_namespace_that_secrets_needed_first(
    site: SiteContext, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    need = Namespace("of-a-service", "baseline")
    first, *others = installed(site.site)
    moved = replace(first, needs=lambda settings: (*first.needs(settings), need))
    monkeypatch.setattr("strata.catalogue.site_services.services", lambda: (moved, *others))
    assert f"of-a-service/{moved.secret_name}" in apply_secrets(site)
    (release,) = (release for release in releases(site.site) if release.makes == "of-a-service")
    values = site.paths.root / "values.yaml"
    values.write_text(json.dumps(release.values(platform_state(site))))
    chart = str(REPOSITORY / release.chart_source)
    where = ("--namespace", release.namespace, "--kubeconfig", str(api_server.kubeconfig))
    api_server.helm("upgrade", "--install", release.name, chart, "--create-namespace", *where, "--values", str(values))
    labels = json.loads(api_server.kubectl("get", "namespace", "of-a-service", "--output=jsonpath={.metadata.labels}"))
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    assert release_drift(site, [all_releases(site)[release.namespace, release.name]]) == []
    site.secrets.rotate(next(iter(site.secrets.known())))
    apply_secrets(site)
    assert release_drift(site, [all_releases(site)[release.namespace, release.name]]) == []
    changed = "pod-security.kubernetes.io/enforce"
    api_server.kubectl("label", "--overwrite", "namespace", "of-a-service", f"{changed}=privileged")
    (drift,) = release_drift(site, [all_releases(site)[release.namespace, release.name]])
    assert drift.object == f"release {release.name}: Namespace of-a-service"
    assert (drift.property, drift.wanted, drift.found) == (f"metadata.labels.{changed}", "baseline", "privileged")
    api_server.helm("uninstall", release.name, *where)


def test_added_fields_are_drift_and_are_removed(
    site: SiteContext, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other fields of the same object stay, those that the server defaults among them."""
    chart = site.paths.root / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: added\nversion: 1.0.0\n")
    container = {"name": "main", "image": "main:1", "env": [{"name": "OURS", "value": "1"}]}
    template = {"metadata": {"labels": {"app": "added"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": "added"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "added"}, "spec": spec}
    (chart / "templates" / "deployment.yaml").write_text(json.dumps(deployment))
    where = ("--namespace", "added", "--kubeconfig", str(api_server.kubeconfig))
    api_server.helm("upgrade", "--install", "added", str(chart), "--create-namespace", *where)
    name, namespace = "deployment/added", "--namespace=added"
    monkeypatch.setattr("strata.drift.platform.deployed_releases", lambda _: [all_releases(site)["added", "added"]])
    monkeypatch.setattr("strata.drift.platform.secrets_drift", lambda *_: [])

    def differences() -> list[tuple[str, str]]:
        return [(d.property, d.found) for d in release_drift(site, [all_releases(site)["added", "added"]])]

    try:
        assert differences() == []
        before = json.loads(api_server.kubectl("get", name, namespace, "--output=json"))
        api_server.kubectl("set", "env", name, namespace, "THEIRS=secret", "OURS=2")
        api_server.kubectl("annotate", name, namespace, "example.org/note=x")
        command = [{"op": "add", "path": "/spec/template/spec/containers/0/command", "value": ["sleep"]}]
        api_server.kubectl("patch", name, namespace, "--type=json", f"--patch={json.dumps(command)}")
        api_server.kubectl("rollout", "restart", name, namespace)
        at = "spec.template.spec.containers[main]"
        assert sorted(differences()) == [
            ("metadata.annotations.example.org/note", "added by kubectl-annotate"),
            (f"{at}.command", "added by kubectl-patch"),
            (f"{at}.env[OURS].value", "2"),
            (f"{at}.env[THEIRS]", "added by kubectl-set"),
        ]
        assert len(repair_releases(site)) == 4
        assert differences() == []
        after = json.loads(api_server.kubectl("get", name, namespace, "--output=json"))
        assert "annotations" in after["spec"]["template"]["metadata"], "the restart stays"
        assert after["spec"]["template"]["spec"] == before["spec"]["template"]["spec"]
        # made by hand: the server's defaults are kubectl's then, and removing them changes nothing
        (chart / "deployment.json").write_text(json.dumps(deployment))
        api_server.kubectl("delete", name, namespace)
        api_server.kubectl("create", namespace, "--filename", str(chart / "deployment.json"))
        repair_releases(site)
        assert differences() == []
    finally:
        api_server.helm("uninstall", "added", *where)
