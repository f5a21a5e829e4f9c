"""kubectl with a login of the site's issuer: a user's own rights, and no others."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from strata.access.https import site_session
from strata.access.kubectl import run_kubectl
from strata.access.login import user_kubeconfig
from strata.catalogue.cluster_login import CLIENT, PREFIX, REDIRECT_URLS, user_group
from strata.catalogue.issuer import Issuer, tenant_group
from strata.models.site import Site
from strata.site.context import SiteContext
from strata.site.outputs import write_private
from strata.verify.needs import CLUSTER, OWN_ISSUER, OWN_USERS, TENANTS, needs
from strata.verify.pods import Kubectl
from strata.verify.tokens import Login, NewUser
from strata.verify.waiting import settled

pytestmark = needs(CLUSTER, OWN_ISSUER)
LEARN_SECONDS = 180.0
"""In which the API server has the keys of an issuer that just started; it asks every 10 s."""
PASSWORD = secrets.token_hex(16)
"""Of a user that exists for a check."""
As = Callable[..., str]


@pytest.fixture(scope="module")
def member(
    context: SiteContext, site: Site, own_issuer: Issuer, new_user: NewUser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, As]]:
    """A member of the first tenant who logged in: the user's name, and `kubectl` as that user."""
    directory = tmp_path_factory.mktemp("login")
    name, first = new_user(site.platform.tenants[0].name)
    with site_session(context) as browser:
        tokens = Login(CLIENT, REDIRECT_URLS[0]).tokens(browser, own_issuer, name, first, PASSWORD)
    # what kubelogin outputs to kubectl
    write_private(directory / "token", tokens["id_token"])
    content = user_kubeconfig(context, site.platform.tenants[0].name)
    content["users"][0]["user"] = {"tokenFile": str(directory / "token")}
    write_private(directory / "kubeconfig", json.dumps(content))

    def kubectl(*arguments: str, text: str | None = None) -> str:
        done = run_kubectl(context, f"--kubeconfig={directory / 'kubeconfig'}", *arguments, text=text, seconds=60)
        return done.stdout + done.stderr

    known = '"userInfo"'
    said = settled(lambda: kubectl("auth", "whoami", "--output=json"), lambda text: known in text, LEARN_SECONDS)
    assert known in said, said
    yield name, kubectl
    for file in ("token", "kubeconfig"):
        Path(directory, file).unlink()


@needs(TENANTS, OWN_USERS)
def test_a_member_is_known_to_the_cluster(member: tuple[str, As], site: Site) -> None:
    """kubectl with a user's login has the user's name and tenants, and no group of Kubernetes beside that of all
    authenticated users."""
    name, kubectl = member
    user = json.loads(kubectl("auth", "whoami", "--output=json"))["status"]["userInfo"]
    assert user["username"] == f"{PREFIX}{name}"
    assert sorted(user["groups"]) == [user_group(tenant_group(site.platform.tenants[0].name)), "system:authenticated"]


@needs(TENANTS, OWN_USERS)
def test_a_member_works_in_the_tenants_namespace(member: tuple[str, As], site: Site) -> None:
    """A tenant's member may run pods and read logs in the tenant's namespace, but not open it, raise its quota or take
    a name or an address of the site."""
    _, kubectl = member
    assert "Forbidden" not in kubectl("get", "pods,jobs,configmaps,secrets,resourcequotas")
    questions = (*ALLOWED, *REFUSED)
    reviews = {"apiVersion": "v1", "kind": "List", "items": [review(site, question) for question in questions]}
    answers = kubectl("create", "--filename=-", '--output=jsonpath={.status.allowed}{"\\n"}', text=json.dumps(reviews))
    may = dict(zip(questions, answers.splitlines(), strict=True))
    assert may == dict.fromkeys(ALLOWED, "true") | dict.fromkeys(REFUSED, "false")
    said = kubectl("create", "--dry-run=server", "--filename=-", text=json.dumps(STOLEN_ADDRESS))
    assert "external IPs is denied" in said


@needs(TENANTS, OWN_USERS)
def test_a_member_reads_nothing_else(member: tuple[str, As], kubectl: Kubectl, site: Site) -> None:
    """A tenant's member reads nothing in any other namespace, and nothing of the cluster."""
    own = site.platform.tenants[0].name
    namespaces = kubectl("get", "namespaces", "--output=jsonpath={.items[*].metadata.name}").split()
    assert own in namespaces
    _, as_member = member
    for name in namespaces:
        said = as_member("get", "pods,secrets,configmaps,persistentvolumeclaims", f"--namespace={name}")
        assert said.count("Error from server (Forbidden)") == (0 if name == own else 4), (name, said)
    said = as_member("get", "nodes,namespaces,persistentvolumes,clusterroles")
    assert said.count("Error from server (Forbidden)") == 4, said


def test_a_login_needs_no_browser_beside_kubectl(own_issuer: Issuer, http: requests.Session) -> None:
    """The issuer gives kubectl a code to log in with on another device."""
    document = http.get(f"{own_issuer.url}/.well-known/openid-configuration", timeout=30).json()
    form = {"client_id": CLIENT, "scope": "openid"}
    answer = http.post(document["device_authorization_endpoint"], data=form, timeout=30)
    assert answer.status_code == 200, answer.text
    assert answer.json()["verification_uri_complete"].startswith(own_issuer.url)


ALLOWED = (
    "create pods",
    "create batch/jobs",
    "get pods.log",
    "create pods.exec",
    "create secrets",
    "get resourcequotas",
)
REFUSED = (
    "update resourcequotas",
    "delete limitranges",
    "create networking.k8s.io/networkpolicies",
    "delete networking.k8s.io/networkpolicies",
    "create networking.k8s.io/ingresses",
    "create rbac.authorization.k8s.io/rolebindings",
    "impersonate serviceaccounts",
    "create serviceaccounts.token",
)
"""verb [group/]resource[.subresource]"""


def review(site: Site, question: str) -> dict[str, Any]:
    """A SelfSubjectAccessReview in the first tenant's namespace."""
    verb, _, rest = question.partition(" ")
    group, _, resource = rest.rpartition("/")
    resource, _, subresource = resource.partition(".")
    attributes = {"namespace": site.platform.tenants[0].name, "verb": verb, "group": group, "resource": resource}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**attributes, "subresource": subresource}},
    }


STOLEN_ADDRESS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "check"},
    "spec": {"externalIPs": ["192.0.2.1"], "ports": [{"port": 5432}], "selector": {"app": "check"}},
}
