"""A real Keycloak of our image, with the chart's arguments: its realm is made, kept and rotated; users log in."""

from __future__ import annotations

import json
import math
import secrets
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests
from requests.adapters import HTTPAdapter

from strata.access.podman import image_names
from strata.catalogue import cluster_login
from strata.catalogue.issuer import Endpoints, Issuer
from strata.images.build import LOCAL_PREFIX
from strata.site.paths import cache_directory
from strata.verify.tokens import Login, LoginRefused, client_token, request_token
from strata_bench.services import PostgreSQL, free_port
from strata_bench.waiting import responds
from strata_services.keycloak.service import AUDIENCE_SCOPE, CLIENT, new_signing_key

pytestmark = pytest.mark.nightly

HOST = "https://login.lab.strata.test"
REALM = f"{HOST}/realms/strata"
AT = f"{REALM}/protocol/openid-connect"
ENDPOINTS = Endpoints(*(f"{AT}/{name}" for name in ("auth", "token", "userinfo", "certs", "logout", "revoke")))
OWN = Issuer(REALM, ENDPOINTS, ENDPOINTS, CLIENT, "", AUDIENCE_SCOPE, {}, "")
CALLBACK = "https://notebooks.lab.strata.test/hub/oauth_callback"
NOTEBOOKS_SECRET = secrets.token_urlsafe(16)
PASSWORDS_SECRET = secrets.token_urlsafe(16)
VERIFY_SECRET = secrets.token_urlsafe(16)
NOTEBOOKS = Login("notebooks", CALLBACK, NOTEBOOKS_SECRET)
OFFLINE = "openid profile groups offline_access"
TOKENS_CALLBACK = "https://tokens.lab.strata.test/.login/callback"
TOKENS = Login("authenticator-login", TOKENS_CALLBACK, secrets.token_urlsafe(16), OFFLINE)
KUBECTL = Login(cluster_login.CLIENT, cluster_login.REDIRECT_URLS[0])
TLS = "sslmode=verify-full&sslrootcert=/etc/keycloak/ca.crt"
START_SECONDS = 600
PROGRAM = ("/usr/bin/python3", "-m", "keycloak_realm")


def podman(*arguments: str, text: str | None = None) -> str:
    done = subprocess.run(["podman", *arguments], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Ingress(HTTPAdapter):
    """Sends requests for the site's name to Keycloak, as the ingress controller does."""

    def __init__(self, port: int) -> None:
        self.port = port
        super().__init__()

    def send(self, request: requests.PreparedRequest, *arguments: Any, **options: Any) -> requests.Response:
        url = str(request.url)
        request.url = url.replace(HOST, f"http://127.0.0.1:{self.port}", 1)
        request.headers.update(
            {"Host": HOST.partition("//")[2], "X-Forwarded-Proto": "https", "X-Forwarded-Port": "443"}
        )
        answer = super().send(request, *arguments, **options)
        answer.url = url
        return answer


@dataclass
class Keycloak:
    """A running Keycloak; what the realm should be is in a folder that its container sees."""

    container: str
    directory: Path
    port: int
    site: dict[str, Any] = field(default_factory=dict)

    def browser(self) -> requests.Session:
        session = requests.Session()
        session.mount(HOST, Ingress(self.port))
        return session

    def reconcile(self) -> list[str]:
        """Brings the realm to what `site` states once; returns the requests that changed something."""
        (self.directory / "site.json").write_text(json.dumps(self.site))
        said = podman("exec", "-i", self.container, "/usr/bin/python3", "-", text=RECONCILE)
        return [str(line) for line in json.loads(said)]

    def users(self, action: str, **details: Any) -> dict[str, Any]:
        request = json.dumps({"action": action, **details})
        return dict(json.loads(podman("exec", "-i", self.container, *PROGRAM, "users", text=request)))

    def administrator(self, secret: str) -> int:
        """HTTP status of a login of the administrator's client."""
        form = {"grant_type": "client_credentials", "client_id": "strata", "client_secret": secret}
        path = "/realms/master/protocol/openid-connect/token"
        return requests.post(f"http://127.0.0.1:{self.port}{path}", data=form, timeout=30).status_code

    def key_ids(self) -> set[str]:
        return {key["kid"] for key in self.browser().get(ENDPOINTS.jwks, timeout=30).json()["keys"]}


RECONCILE = """
import json, os
from pathlib import Path
from keycloak_realm.__main__ import ADMINISTRATOR, _previous_too
from keycloak_realm.api import Api
from keycloak_realm.desired import load
from keycloak_realm.reconcile import reconcile

changes = []

class Watched(Api):
    def request(self, method, path, body=None):
        if method != "GET":
            changes.append(f"{method} {path}")
        return super().request(method, path, body)

directory = Path(os.environ["KEYCLOAK_REALM_DIRECTORY"])
desired = load(directory / "site.json", _previous_too(directory, "signing-key.pem"))
secrets = _previous_too(directory, "admin-client-secret")
reconcile(Watched(os.environ["KEYCLOAK_URL"], desired.realm, ADMINISTRATOR, secrets), desired)
print(json.dumps(changes))
"""
DISABLE = """
import os
from pathlib import Path
from keycloak_realm.__main__ import ADMINISTRATOR, _previous_too
from keycloak_realm.api import Api

secrets = _previous_too(Path(os.environ["KEYCLOAK_REALM_DIRECTORY"]), "admin-client-secret")
api = Api(os.environ["KEYCLOAK_URL"], "strata", ADMINISTRATOR, secrets)
(user,) = api.get("/users?username=gina&exact=true")
api.put(f"/users/{user['id']}", {**user, "enabled": False})
"""


def site() -> dict[str, Any]:
    """What services/keycloak/service.py writes for a site."""
    return {
        "realm": "strata",
        "title": "lab",
        "clients": [
            {
                "id": CLIENT,
                "secret": VERIFY_SECRET,
                "optional_audiences": ["ml-hub", "kubernetes"],
                "service_account": True,
            },
            {
                "id": KUBECTL.client,
                "secret": "",
                "redirect_urls": list(cluster_login.REDIRECT_URLS),
                "device": True,
                "optional_audiences": ["ml-hub"],
            },
            {"id": "notebooks", "secret": NOTEBOOKS_SECRET, "redirect_urls": [CALLBACK], "audiences": ["ml-hub"]},
            {"id": "authenticator", "secret": PASSWORDS_SECRET, "passwords": True, "audiences": ["ml-hub", "other"]},
            {
                "id": TOKENS.client,
                "secret": TOKENS.secret,
                "redirect_urls": [TOKENS_CALLBACK],
                "audiences": ["ml-hub", "other"],
                "offline": True,
            },
        ],
        "tenants": [
            {
                "name": "research",
                "members": [{"name": "carol", "email": "carol@lab.strata.test"}],
                "administrators": [{"name": "ada", "email": ""}],
            },
            {"name": "biology", "members": [{"name": "dave", "email": ""}], "administrators": []},
        ],
    }


def newest_image() -> str | None:
    """Of those that are kept, the one that was packed last; all are created at the same time, 1970."""
    kept = [name.rpartition(":")[2] for name in image_names(f"{LOCAL_PREFIX}/keycloak")]
    packed = [layout for tag in kept if (layout := cache_directory() / "images" / "pods" / tag).exists()]
    newest = max(packed, key=lambda layout: layout.stat().st_mtime, default=None)
    return None if newest is None else f"{LOCAL_PREFIX}/keycloak:{newest.name}"


@pytest.fixture(scope="module")
def keycloak(postgresql: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keycloak]:
    """Started with an empty database; the realm is as `site()` states."""
    image = newest_image()
    if image is None:
        pytest.skip("the image is not built yet: `strata up lab --layer cluster` builds it")
    database = postgresql.create_database("keycloak", "KEYCLOAK")
    directory = tmp_path_factory.mktemp("keycloak")
    directory.chmod(0o755)
    admin, port, management = secrets.token_urlsafe(16), free_port(), free_port()
    password = next(value for name, value in database.items() if name.endswith("PASSWORD"))
    files = {
        "keycloak.conf": f"db-password={password}\nbootstrap-admin-client-secret={admin}\n",
        "admin-client-secret": admin,
        "signing-key.pem": new_signing_key(),
        "ca.crt": postgresql.certificate.ca,
    }
    for name, text in files.items():
        (directory / name).write_text(text)
    environment = {
        "KC_HOSTNAME": HOST,
        "KC_HOSTNAME_BACKCHANNEL_DYNAMIC": "true",
        "KC_HTTP_ENABLED": "true",
        "KC_HTTP_HOST": "127.0.0.1",
        "KC_HTTP_PORT": str(port),
        "KC_HTTP_MANAGEMENT_PORT": str(management),
        "KC_PROXY_HEADERS": "xforwarded",
        "KC_CACHE": "local",
        "KC_DB_URL": f"jdbc:postgresql://127.0.0.1:{postgresql.port}/keycloak?{TLS}",
        "KC_DB_USERNAME": "keycloak",
        "KC_BOOTSTRAP_ADMIN_CLIENT_ID": "strata",
        "JAVA_OPTS": "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "KEYCLOAK_URL": f"http://127.0.0.1:{port}",
        "KEYCLOAK_REALM_DIRECTORY": "/etc/keycloak",
    }
    container = f"strata-test-keycloak-{uuid.uuid4().hex[:8]}"
    podman(
        "run", "--detach", "--rm", "--name", container, "--network=host", "--read-only", "--cap-drop=all",
        "--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096",
        "--tmpfs=/opt/keycloak/data:mode=1777", "--tmpfs=/tmp:mode=1777", f"--volume={directory}:/etc/keycloak:ro",
        *(f"--env={name}={value}" for name, value in environment.items()),
        image, "--config-file=/etc/keycloak/keycloak.conf", "start", "--optimized",
    )  # fmt: skip
    running = Keycloak(container, directory, port, site())
    try:
        try:
            responds(f"http://127.0.0.1:{management}/health/ready", seconds=START_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{podman('logs', container)[-2000:]}") from None
        assert running.reconcile()
        yield running
    finally:
        podman("rm", "--force", "--time=0", container)


def claims(token: str) -> dict[str, Any]:
    return dict(jwt.decode(token, options={"verify_signature": False}))


@pytest.fixture
def restored(keycloak: Keycloak) -> Iterator[Keycloak]:
    """What a test wants otherwise is as before afterwards."""
    before = json.loads(json.dumps(keycloak.site))
    yield keycloak
    keycloak.site = before
    keycloak.reconcile()


def test_a_second_run_changes_nothing(keycloak: Keycloak) -> None:
    assert keycloak.reconcile() == []


def test_a_token_is_for_the_audience_that_is_asked_for(keycloak: Keycloak) -> None:
    http = keycloak.browser()
    document = http.get(f"{REALM}/.well-known/openid-configuration", timeout=30).json()
    assert (document["issuer"], document["jwks_uri"]) == (REALM, ENDPOINTS.jwks)
    token = client_token(http, OWN, VERIFY_SECRET, "ml-hub")
    assert jwt.get_unverified_header(token)["alg"] == "RS256"
    assert claims(token)["aud"] == "ml-hub"
    assert claims(token)["iss"] == REALM
    assert "aud" not in claims(request_token(http, OWN, VERIFY_SECRET).json()["access_token"])
    assert request_token(http, OWN, "wrong").status_code == 401


def test_people_log_in_with_their_groups(keycloak: Keycloak) -> None:
    assert keycloak.users("invite", name="ada", password="for-one-login") == {}
    first = NOTEBOOKS.tokens(keycloak.browser(), OWN, "ada", "for-one-login", "a-password-of-her-own")
    decoded = claims(first["access_token"])
    assert decoded["preferred_username"] == "ada"
    assert sorted(decoded["groups"]) == ["/tenants/research", "/tenants/research/admins"]
    assert decoded["aud"] == "ml-hub"
    assert first["refresh_token"]
    with pytest.raises(LoginRefused):
        NOTEBOOKS.tokens(keycloak.browser(), OWN, "ada", "for-one-login", "another-password")
    again = NOTEBOOKS.tokens(keycloak.browser(), OWN, "ada", "a-password-of-her-own")
    headers = {"Authorization": f"Bearer {again['access_token']}"}
    info = keycloak.browser().get(ENDPOINTS.userinfo, headers=headers, timeout=30).json()
    assert info["groups"] == decoded["groups"]


def test_a_service_passes_on_passwords(restored: Keycloak) -> None:
    """What the authenticator relies on: tokens with all audiences and Tapis' claims, refusals that differ."""
    http = restored.browser()

    def grant(word: str, client: str = "authenticator", secret: str = PASSWORDS_SECRET) -> requests.Response:
        form = {"grant_type": "password", "username": "hal", "password": word, "scope": "openid"}
        return http.post(ENDPOINTS.token, data={**form, "client_id": client, "client_secret": secret}, timeout=30)

    details = {"email": "", "tenants": ["biology"], "principal_investigator_of": []}
    assert restored.users("add", name="hal", password="for-one-login", **details) == {}
    first = grant("for-one-login")
    assert (first.status_code, first.json()["error"]) == (400, "invalid_grant")
    assert first.json()["error_description"] == "Account is not fully set up"
    NOTEBOOKS.tokens(http, OWN, "hal", "for-one-login", "a-password-of-his-own")
    wrong = grant("wrong")
    assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_grant")
    refused = grant("a-password-of-his-own", "notebooks", NOTEBOOKS_SECRET)
    assert (refused.status_code, refused.json()["error"]) == (400, "unauthorized_client")
    unknown = grant("a-password-of-his-own", secret="wrong")
    assert (unknown.status_code, unknown.json()["error"]) == (401, "unauthorized_client")
    tokens = grant("a-password-of-his-own").json()
    decoded = claims(tokens["access_token"])
    assert sorted(decoded["aud"]) == ["ml-hub", "other"]
    expected = {
        "preferred_username": "hal",
        "groups": ["/tenants/biology"],
        "tapis/username": "hal",
        "tapis/tenant_id": "lab",
        "tapis/target_site_id": "lab",
        "tapis/account_type": "user",
        "tapis/delegation": False,
    }
    assert expected.items() <= decoded.items()
    assert tokens["refresh_expires_in"] > 0
    service = claims(client_token(http, OWN, VERIFY_SECRET, "ml-hub"))
    assert not [claim for claim in service if claim.startswith("tapis/")]
    keys = http.get(ENDPOINTS.jwks, timeout=30).json()["keys"]
    signing = [key for key in keys if key["use"] == "sig" and key["alg"] == "RS256"]
    assert signing[0]["kid"] == jwt.get_unverified_header(tokens["access_token"])["kid"]


def refreshed(http: requests.Session, tokens: Mapping[str, str], login: Login = NOTEBOOKS) -> dict[str, Any]:
    """New tokens for old ones, whose refresh token is void then; or the error."""
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    client = (login.client, login.secret)
    answer: dict[str, Any] = http.post(ENDPOINTS.token, data=form, auth=client, timeout=30).json()
    return answer


def test_refresh_tokens_outlive_a_login_for_one_client(restored: Keycloak) -> None:
    """What personal access tokens rely on: several in parallel, groups as they are now, nothing once disabled."""
    details = {"email": "", "tenants": ["biology"], "principal_investigator_of": []}
    assert restored.users("add", name="tess", password="for-one-login", **details) == {}
    http = restored.browser()
    first = TOKENS.tokens(http, OWN, "tess", "for-one-login", "a-password-of-her-own")
    second = TOKENS.tokens(http, OWN, "tess", "a-password-of-her-own")
    assert [claims(tokens["refresh_token"])["typ"] for tokens in (first, second)] == ["Offline", "Offline"]
    # where it has an end, it is that of the realm's idle time
    assert claims(second["refresh_token"]).get("exp", math.inf) > time.time() + 365 * 86_400
    for tokens in (first, second, first):
        again = refreshed(http, tokens, TOKENS)
        decoded = claims(again["access_token"])
        assert (sorted(decoded["aud"]), decoded["groups"]) == (["ml-hub", "other"], ["/tenants/biology"])
    with pytest.raises(LoginRefused):
        replace(NOTEBOOKS, scope=OFFLINE).tokens(http, OWN, "tess", "a-password-of-her-own")
    restored.site["tenants"] = restored.site["tenants"][:1]
    restored.reconcile()
    assert "groups" not in claims(refreshed(http, first, TOKENS)["access_token"])
    assert restored.users("disable", name="tess", dry_run=False) == {}
    for tokens in (first, second):
        assert refreshed(http, tokens, TOKENS)["error"] == "invalid_grant"
    assert restored.users("remove", name="tess") == {}


def test_a_refresh_token_of_a_login_by_password_is_revoked(keycloak: Keycloak) -> None:
    details = {"email": "", "tenants": ["biology"], "principal_investigator_of": []}
    assert keycloak.users("add", name="ivan", password="for-one-login", **details) == {}
    http = keycloak.browser()
    NOTEBOOKS.tokens(http, OWN, "ivan", "for-one-login", "a-password-of-his-own")
    login = Login("authenticator", "", PASSWORDS_SECRET)
    form = {"grant_type": "password", "username": "ivan", "password": "a-password-of-his-own", "scope": "openid"}
    tokens = http.post(ENDPOINTS.token, data=form, auth=(login.client, login.secret), timeout=30).json()
    assert "access_token" in refreshed(http, tokens, login)
    for token in (tokens["refresh_token"], tokens["refresh_token"], "unknown"):
        form = {"token": token, "client_id": login.client, "client_secret": login.secret}
        assert http.post(ENDPOINTS.revoke, data=form, timeout=30).status_code == 200
    assert refreshed(http, tokens, login)["error"] == "invalid_grant"


def test_rights_end_before_the_tokens(restored: Keycloak) -> None:
    """What JupyterHub's refresh of logins relies on: groups as they are now, nothing for a disabled account."""
    details = {"email": "gina@lab.strata.test", "tenants": ["biology"], "principal_investigator_of": ["biology"]}
    assert restored.users("add", name="gina", password="for-one-login", **details) == {}
    http = restored.browser()
    tokens = NOTEBOOKS.tokens(http, OWN, "gina", "for-one-login", "a-password-of-her-own")
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert "/tenants/biology" in http.get(ENDPOINTS.userinfo, headers=headers, timeout=30).json()["groups"]
    restored.site["tenants"] = restored.site["tenants"][:1]
    restored.reconcile()
    assert "groups" not in http.get(ENDPOINTS.userinfo, headers=headers, timeout=30).json()
    without_group = restored.users("without_group")
    assert "gina" in without_group.get("names", ()), without_group
    tokens = refreshed(http, tokens)
    assert "access_token" in tokens
    podman("exec", "-i", restored.container, "/usr/bin/python3", "-", text=DISABLE)
    assert "gina" not in restored.users("without_group")["names"]
    assert http.get(ENDPOINTS.userinfo, headers=headers, timeout=30).status_code in (400, 401, 403)
    refused = refreshed(http, tokens)
    assert (refused["error"], refused["error_description"]) == ("invalid_grant", "User disabled")


def test_kubectl_gets_an_id_token_with_name_and_groups(keycloak: Keycloak) -> None:
    assert keycloak.users("invite", name="dave", password="for-one-login") == {}
    login = replace(KUBECTL, scope=f"openid {AUDIENCE_SCOPE.format(audience='ml-hub')}")
    tokens = login.tokens(keycloak.browser(), OWN, "dave", "for-one-login", "a-password-of-his-own")
    # for a service where that is asked for; not for the cluster
    access = claims(tokens["access_token"])
    assert (access["aud"], access["groups"]) == ("ml-hub", ["/tenants/biology"])
    decoded = claims(tokens["id_token"])
    assert (decoded["aud"], decoded["iss"]) == (KUBECTL.client, REALM)
    assert (decoded["preferred_username"], decoded["groups"]) == ("dave", ["/tenants/biology"])
    assert tokens["refresh_token"]


def test_kubectl_logs_in_by_a_code_on_another_device(keycloak: Keycloak) -> None:
    # as kubelogin asks: without PKCE
    answer = keycloak.browser().post(f"{AT}/auth/device", data={"client_id": KUBECTL.client, "scope": "openid"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["verification_uri"].startswith(REALM)
    refused = keycloak.browser().post(f"{AT}/auth/device", data={"client_id": "account"})
    assert refused.status_code in (400, 401)


def test_a_password_is_typed_on_its_own_pages_only(keycloak: Keycloak) -> None:
    for client in ({"client_id": "notebooks", "client_secret": NOTEBOOKS_SECRET}, {"client_id": "admin-cli"}):
        form = {"grant_type": "password", "username": "ada", "password": "x", **client}
        answer = keycloak.browser().post(ENDPOINTS.token, data=form, timeout=30)
        assert answer.json()["error"] in ("unauthorized_client", "invalid_client")


def test_users_are_added_and_removed(keycloak: Keycloak) -> None:
    details = {"email": "erin@lab.strata.test", "tenants": ["biology"], "principal_investigator_of": []}
    add = {"name": "erin", "password": "for-one-login", **details}
    assert keycloak.users("add", **add) == {}
    assert "exists already" in keycloak.users("add", **add)["problem"]
    assert "no tenant" in keycloak.users("add", **{**add, "name": "frank", "email": "", "tenants": ["law"]})["problem"]
    users = {user["name"]: user for user in keycloak.users("list")["users"]}
    assert users["erin"]["tenants"] == ["biology"]
    assert users["erin"]["password"]
    assert "frank" not in users
    assert keycloak.reconcile() == [], "who is not in the site file stays"
    assert "site file names carol" in keycloak.users("remove", name="carol")["problem"]
    assert "site file names carol" in keycloak.users("disable", name="carol", dry_run=True)["problem"]
    http = keycloak.browser()
    tokens = NOTEBOOKS.tokens(http, OWN, "erin", "for-one-login", "a-password-of-her-own")
    assert keycloak.users("disable", name="erin", dry_run=True) == {}
    tokens = refreshed(http, tokens)
    assert "access_token" in tokens
    assert keycloak.users("disable", name="erin", dry_run=False) == {}
    assert refreshed(http, tokens)["error"] == "invalid_grant"
    (erin,) = [user for user in keycloak.users("list")["users"] if user["name"] == "erin"]
    assert (erin["enabled"], erin["email"], erin["tenants"]) == (False, "erin@lab.strata.test", ["biology"])
    assert keycloak.users("disable", name="erin", dry_run=False) == {}, "as often as needed"
    assert keycloak.users("remove", name="erin") == {}
    assert "no user" in keycloak.users("remove", name="erin")["problem"]


def test_who_leaves_the_site_file_leaves_the_tenant(restored: Keycloak) -> None:
    research, biology = restored.site["tenants"]
    research["members"], restored.site["tenants"] = [], [research]
    assert restored.reconcile()
    users = {user["name"]: user for user in restored.users("list")["users"]}
    assert users["carol"]["tenants"] == []
    assert users["ada"]["tenants"] == ["research"]
    assert users["dave"]["tenants"] == [], biology["name"]


def test_addresses_are_exchanged_and_a_refused_user_stops_no_other(restored: Keycloak) -> None:
    """What the fake of test_keycloak_people.py assumes."""
    members = restored.site["tenants"][0]["members"]
    members[:] = [{"name": "carol", "email": "One@lab.strata.test"}, {"name": "hugo", "email": "two@lab.strata.test"}]
    restored.reconcile()
    members[:] = [{"name": "carol", "email": "two@lab.strata.test"}, {"name": "hugo", "email": "ONE@lab.strata.test"}]
    members += [
        {"name": "ida", "email": "two@lab.strata.test"},
        {"name": "al", "email": ""},
        {"name": "joe", "email": "a..b@-x.y"},
    ]
    members += [{"name": "kim", "email": ""}]
    assert restored.reconcile()
    users = {user["name"]: user for user in restored.users("list")["users"]}
    assert [users[name]["email"] for name in ("carol", "hugo")] == ["two@lab.strata.test", "one@lab.strata.test"]
    assert users["kim"]["tenants"] == ["research"]
    assert not {"ida", "al", "joe"} & users.keys()
    assert restored.users("invite", name="carol", password="for-one-login") == {}


def test_a_client_that_is_not_listed_is_removed(restored: Keycloak) -> None:
    restored.site["clients"] = restored.site["clients"][:1]
    assert [change for change in restored.reconcile() if change.startswith("DELETE")]
    answer = restored.browser().get(
        ENDPOINTS.authorize, params={"client_id": "notebooks", "redirect_uri": CALLBACK, "response_type": "code"}
    )
    assert answer.status_code == 400


def test_tokens_of_the_key_before_hold(restored: Keycloak) -> None:
    token = client_token(restored.browser(), OWN, VERIFY_SECRET, "ml-hub")
    old = jwt.get_unverified_header(token)["kid"]
    file = restored.directory / "signing-key.pem"
    (restored.directory / "previous-signing-key.pem").write_text(file.read_text())
    file.write_text(new_signing_key())
    restored.reconcile()
    new = jwt.get_unverified_header(client_token(restored.browser(), OWN, VERIFY_SECRET, "ml-hub"))["kid"]
    keys = restored.browser().get(ENDPOINTS.jwks, timeout=30).json()["keys"]
    assert next(key["kid"] for key in keys if key["use"] == "sig" and key["alg"] == "RS256") == new, "the first signs"
    assert new != old
    assert {old, new} <= restored.key_ids()
    (restored.directory / "previous-signing-key.pem").unlink()
    restored.reconcile()
    assert old not in restored.key_ids()


def test_the_administrator_s_secret_is_replaced(restored: Keycloak) -> None:
    file = restored.directory / "admin-client-secret"
    previous = restored.directory / "previous-admin-client-secret"
    before, after = file.read_text(), secrets.token_urlsafe(16)
    previous.write_text(before)
    file.write_text(after)
    restored.reconcile()
    previous.unlink()
    assert restored.reconcile() == []
    assert [restored.administrator(secret) for secret in (before, after)] == [401, 200]
