"""The real API server with the role's AuthenticationConfiguration, a local issuer, and the tenants' chart."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from strata.access.login import user_kubeconfig
from strata.catalogue.cluster_login import CLIENT, PREFIX, user_group
from strata.catalogue.issuer import GROUPS_CLAIM, USERNAME_CLAIM, administrators_group, tenant_group
from strata.models.platform import ExternalIssuer
from strata.platform import tenant
from strata.progress import Silent
from strata.retry import wait_until
from strata.site.context import SiteContext
from strata.site.outputs import write_private
from strata.site.paths import REPOSITORY
from strata.site_file.inventories import find_site
from strata.toolchain import ensure, tools_environment
from strata.verify.forgeries import FORGERIES, Signer
from strata_bench.api_server import ApiServer

from ...unit.platform.test_values import SITES, state_of
from .login_issuer import KEY_ID, LoginIssuer, login_issuer

Render = Callable[[str, Mapping[str, object]], str]
RELOAD_SECONDS = 180.0
OWN, OTHER = "chemistry", "geology"


@dataclass(frozen=True)
class Cluster:
    """The API server with two tenants, and an issuer that it trusts."""

    server: ApiServer
    url: str
    ca: str
    signer: Signer

    def token(self, **claims: Any) -> str:
        """Of a member of the first tenant, but for the claims given."""
        return self.signer.sign(self.claims() | claims)

    def claims(self) -> dict[str, Any]:
        """Of a member of the first tenant."""
        return self.signer.claims(CLIENT, **{USERNAME_CLAIM: "carol", GROUPS_CLAIM: [tenant_group(OWN)]})

    def get(self, path: str, token: str) -> int:
        """HTTP status of a GET."""
        headers = {"Authorization": f"Bearer {token}"}
        return requests.get(self.url + path, headers=headers, verify=self.ca, timeout=30).status_code

    def post(self, path: str, token: str, body: dict[str, Any]) -> requests.Response:
        """POST of an object."""
        headers = {"Authorization": f"Bearer {token}"}
        return requests.post(self.url + path, headers=headers, json=body, verify=self.ca, timeout=30)

    def who(self, token: str) -> dict[str, Any]:
        """As `kubectl auth whoami`."""
        kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = self.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", token, kind)
        assert answer.status_code == 201, answer.text
        return dict(answer.json()["status"]["userInfo"])


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginIssuer]:
    """Does not respond yet."""
    with login_issuer(tmp_path_factory.mktemp("issuer")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(
    api_server: ApiServer, render: Render, issuer: LoginIssuer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The file is written while the server runs, and before the issuer answers."""
    directory = tmp_path_factory.mktemp("cluster")
    config = json.loads(api_server.kubectl("config", "view", "--raw", "--output=json"))["clusters"][0]["cluster"]
    (directory / "ca.crt").write_bytes(base64.b64decode(config["certificate-authority-data"]))
    before = api_server.authentication.read_text()
    settings = {
        "url": issuer.url,
        "ca": issuer.ca,
        "audience": CLIENT,
        "username_claim": USERNAME_CLAIM,
        "groups_claim": GROUPS_CLAIM,
        "prefix": PREFIX,
    }
    template = "kube_control_plane/templates/authentication.yaml.j2"
    write_private(api_server.authentication, render(template, {"kube_control_plane_issuer": settings}))
    signer = Signer(issuer.url, issuer.key, KEY_ID)
    client = Cluster(api_server, config["server"], str(directory / "ca.crt"), signer)
    assert client.get("/api", client.token()) == 401, "the issuer does not respond yet"
    issuer.available = True
    wait_until(lambda: None if client.get("/api", client.token()) == 200 else "the issuer", RELOAD_SECONDS)
    with_tenants(api_server)
    yield client
    write_private(api_server.authentication, before)
    api_server.kubectl("delete", "namespace", OWN, OTHER, "--wait=false")


def with_tenants(server: ApiServer) -> None:
    """Two tenants as the platform deploys them."""
    site = state_of(SITES["lab"]).site
    first, *_ = site.platform.tenants
    for name in (OWN, OTHER):
        values = json.dumps(tenant.values(site, first.model_copy(update={"name": name})))
        chart = str(REPOSITORY / "helm/tenant")
        file = Path(server.kubeconfig.parent, f"{name}.json")
        file.write_text(values)
        server.helm("upgrade", "--install", f"tenant-{name}", chart, f"--values={file}", "--output=json")


def test_a_member_is_known_by_name_and_tenant(cluster: Cluster) -> None:
    who = cluster.who(cluster.token())
    assert who["username"] == "oidc:carol"
    assert sorted(who["groups"]) == [user_group(tenant_group(OWN)), "system:authenticated"]


@pytest.mark.parametrize("forgery", FORGERIES)
def test_other_tokens_are_refused(cluster: Cluster, forgery: str) -> None:
    assert cluster.get("/api", FORGERIES[forgery](cluster.signer, cluster.claims())) == 401


@pytest.mark.parametrize(
    "claims",
    [{"exp": int(time.time()) + 2 * 86400}, {"exp": None}, {USERNAME_CLAIM: ""}],
    ids=["for days", "for ever", "nameless"],
)
def test_other_claims_are_refused(cluster: Cluster, claims: dict[str, Any]) -> None:
    assert cluster.get("/api", cluster.token(**claims)) == 401


def test_no_one_becomes_one_of_kubernetes_own(cluster: Cluster) -> None:
    token = cluster.token(**{USERNAME_CLAIM: "system:admin", GROUPS_CLAIM: ["system:masters", "system:nodes"]})
    who = cluster.who(token)
    assert who["username"] == "oidc:system:admin"
    assert sorted(who["groups"]) == ["oidc:system:masters", "oidc:system:nodes", "system:authenticated"]
    assert cluster.get("/api/v1/nodes", token) == 403


def test_a_member_reads_the_own_namespace_only(cluster: Cluster) -> None:
    token = cluster.token()
    for kind in ("pods", "secrets", "configmaps", "resourcequotas", "events"):
        statuses = [cluster.get(f"/api/v1/namespaces/{name}/{kind}", token) for name in (OWN, OTHER, "kube-system")]
        assert statuses == [200, 403, 403], kind
        assert cluster.get(f"/api/v1/{kind}", token) == 403
    assert cluster.get(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OWN}/rolebindings", token) == 403


def test_a_principal_investigator_gives_no_more_than_the_own_rights(cluster: Cluster) -> None:
    token = cluster.token(**{GROUPS_CLAIM: [tenant_group(OWN), administrators_group(OWN)]})
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "oidc:guest"}

    def bind(kind: str, role: str, namespace: str = OWN) -> int:
        body = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"guest-{role}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [subject],
        }
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings?dryRun=All"
        return cluster.post(path, token, body).status_code

    assert bind("Role", "tenant-member") == 201
    assert bind("ClusterRole", "cluster-admin") == 403
    assert bind("Role", "tenant-member", OTHER) == 403
    rule = {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["delete"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "more"}, "rules": [rule]}
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OWN}/roles?dryRun=All"
    assert cluster.post(path, token, role).status_code == 403
    assert cluster.post(path, token, {**role, "rules": [{**rule, "verbs": ["get"]}]}).status_code == 201


@pytest.mark.nightly  # builds kubelogin where it is not in the cache
def test_kubectl_logs_in_by_a_code(
    state_directory: Path, cluster: Cluster, tmp_path: Path, issuer: LoginIssuer
) -> None:
    """The real kubelogin with what `strata kubeconfig --device` prints; its cache is the user's alone."""
    ensure(["kubectl-oidc_login"], Silent())
    lab = SiteContext.load(find_site("lab"))
    (tmp_path / "ca.pem").write_text(issuer.ca)
    services = type(lab.site.platform.services)(external_issuer=ExternalIssuer(url=issuer.url, ca_file="ca.pem"))
    platform = lab.site.platform.model_copy(update={"services": services})
    context = SiteContext(lab.site.model_copy(update={"platform": platform}), tmp_path / "site.yaml", lab.paths)
    write_private(context.paths.kubeconfig, cluster.server.kubeconfig.read_text())
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(user_kubeconfig(context, device=True)))
    issuer.id_token = cluster.token()
    environment = {**tools_environment(), "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "kubeconfig")}

    def kubectl(*arguments: str) -> str:
        done = subprocess.run(["kubectl", *arguments], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "oidc:carol" in kubectl("auth", "whoami")
    assert kubectl("get", "resourcequotas", f"--namespace={OWN}", "--output=name").split()
    files = [file for file in (tmp_path / ".kube/cache/oidc-login").iterdir() if file.is_file()]
    assert files
    assert [file for file in files if file.stat().st_mode & 0o077] == []
