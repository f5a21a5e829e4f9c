"""The unmodified tapipy against the authenticator."""

from __future__ import annotations

import json

from strata_bench.service_processes import Service
from strata_bench.tapis_client import documented_lines, run_tapipy
from strata_bench.token_issuer import RsaKey

from .conftest import PASSWORD, Browser, Login

SCRIPT = """
import json, os
import jwt
from tapipy import errors
from tapipy.tapis import Tapis

url, password = os.environ["STRATA_API_URL"], os.environ["PASSWORD"]
t = Tapis(base_url=url, username="ada", password=password)
output = {"tenant": t.tenant_id, "sites": [site.site_id for site in t.tenants.list_sites()]}
t.get_tokens()
output["user"] = t.authenticator.get_userinfo().username
# t.validate_token refuses every token with an audience
key = t.tenants.get_tenant(tenant_id=t.tenant_id).public_key
claims = jwt.decode(t.access_token.access_token, key, algorithms=["RS256"], options={"verify_aud": False})
output["claims"] = [claims["tapis/tenant_id"], claims["tapis/username"]]
other = Tapis(base_url=url, access_token=t.access_token.access_token)
output["by token"] = [other.tenant_id, other.authenticator.get_userinfo().email]
wrong = Tapis(base_url=url, username="ada", password="wrong")
try:
    wrong.get_tokens()
except errors.UnauthorizedError as error:
    output["wrong"] = str(error)
forged = jwt.encode({"exp": 4102444800}, "k" * 32, algorithm="HS256")
faulty = Tapis(base_url=url, access_token=forged)
output["faulty"] = [tenant.tenant_id for tenant in faulty.tenants.list_tenants()]
try:
    faulty.authenticator.get_userinfo()
except errors.UnauthorizedError as error:
    output["refused"] = str(error)
print(json.dumps(output))
"""


def test_tapipy_finds_its_tenant_and_logs_in(authenticator: Service, login: Login) -> None:
    assert isinstance(login.issuer.keys[0], RsaKey)
    done = run_tapipy(SCRIPT, STRATA_API_URL=authenticator.url, PASSWORD=PASSWORD)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert output["claims"] == ["lab", "ada"]
    assert output["tenant"] == "lab"
    assert output["sites"] == ["lab"]
    assert output["user"] == "ada"
    assert output["by token"] == ["lab", "ada@example.org"]
    assert "password is wrong" in output["wrong"]
    assert output["faulty"] == ["lab"]
    assert "signature algorithm" in output["refused"]


def test_the_documented_lines_work(authenticator: Service, browser: Browser) -> None:
    variables = {"STRATA_API_URL": authenticator.url, "STRATA_USER": "ada", "STRATA_PASSWORD": PASSWORD}
    done = run_tapipy(documented_lines(), None, **variables)
    assert (done.returncode, done.stdout) == (0, "ada lab\n"), done.stderr


def test_the_documented_lines_work_with_a_token_in_place_of_the_password(
    authenticator: Service, browser: Browser
) -> None:
    token = browser.create_token("ci")
    variables = {"STRATA_API_URL": authenticator.url, "STRATA_USER": "ada", "STRATA_PASSWORD": token}
    done = run_tapipy(documented_lines(), None, **variables)
    first, listed = done.stdout.splitlines()
    assert first == "ada lab", done.stderr
    assert listed.split()[:2] == [token[11:23], "ci"]
