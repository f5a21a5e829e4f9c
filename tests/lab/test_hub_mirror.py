"""A tenant's model by unmodified clients: published, loaded by another tenant and by a pod, shown by the ML Hub."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strata.access.https import load_balancer_address, site_session, trusted_authorities
from strata.catalogue.published import api_url
from strata.catalogue.site_services import hub_server
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata_bench.services import locked_programs
from strata_bench.tapis_client import HOSTS

from .test_pods import Member, ada, member, new_name

__all__ = ["ada", "member"]
"""Fixtures."""
SECONDS = 300
WEIGHTS = 11 << 20
"""Bytes of a file that clients upload by git LFS."""
CARD_TEXT = "# A model of the lab\n"
CARD = f"---\nlicense: mit\n---\n{CARD_TEXT}"
TOKEN = 'print(json.dumps({"token": t.access_token.access_token}))'
PUBLISH = """
from huggingface_hub import HfApi
api = HfApi()
for name, private in ((os.environ["OPEN"], False), (os.environ["CLOSED"], True)):
    api.create_repo(name, private=private)
    api.upload_folder(repo_id=name, folder_path=os.environ["FOLDER"])
result = sorted(api.list_repo_files(os.environ["CLOSED"]))
"""
LOAD = """
from huggingface_hub import snapshot_download
path = snapshot_download(os.environ["NAME"])
result = {name: os.path.getsize(os.path.join(path, name)) for name in os.listdir(path)}
"""
DELETE = """
from huggingface_hub import HfApi
for name in (os.environ["OPEN"], os.environ["CLOSED"]):
    HfApi().delete_repo(name)
"""
IN_A_POD = """
import os, urllib.request
url = os.environ["HF_ENDPOINT"] + "/" + os.environ["NAME"] + "/resolve/main/config.json"
print(urllib.request.urlopen(url, timeout=60).read().decode())
"""
POD = f"""
resources = {{"cpu_request": 250, "cpu_limit": 1000, "mem_request": 256, "mem_limit": 256}}
variables = {{"NAME": os.environ["NAME"]}}
command = ["python3", "-c", {IN_A_POD!r}]
t.pods.create_pod(pod_id=web, image=image, command=command, environment_variables=variables, resources=resources)
wait(web, "COMPLETE")
print(json.dumps({{"log": t.pods.get_pod_logs(pod_id=web).logs}}))
t.pods.delete_pod(pod_id=web)
"""


@pytest.fixture(scope="module")
def url(context: SiteContext) -> str:
    """Of the mirror."""
    server = hub_server(context.site)
    if server is None:
        pytest.skip(f"site {context.site.name} has no platform.services.hub_mirror")
    return server.public_url


@pytest.fixture
def run(context: SiteContext, url: str, tmp_path: Path) -> Callable[..., Any]:
    """`run(program, token, NAME=…)`: what a program with huggingface_hub leaves in `result`, or its exception."""
    project = REPOSITORY / "services" / "hub-mirror"
    python = locked_programs(project, "--no-dev", "--inexact", "--group", "clients") / "python"
    ca = trusted_authorities(context)
    hosts = {url.removeprefix("https://"): load_balancer_address(context)}

    def of(program: str, token: str, **variables: str) -> Any:
        lines = "".join(f"    {line}\n" for line in program.strip().splitlines())
        script = (
            f"{HOSTS}\nresult = None\ntry:\n{lines}except Exception as error:\n    result = type(error).__name__\n"
            "print('RESULT' + json.dumps(result))\n"
        )
        environment = {
            "PATH": os.environ["PATH"], "NO_PROXY": "*", "HOSTS": json.dumps(hosts), "HF_ENDPOINT": url,
            "HF_HOME": str(tmp_path / secrets.token_hex(4)), "HF_HUB_DISABLE_XET": "1", "SSL_CERT_FILE": str(ca),
            **({"HF_TOKEN": token} if token else {}), **variables,
        }  # fmt: skip
        done = subprocess.run(
            [str(python), "-"],
            input=script,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert "RESULT" in done.stdout, done.stderr
        return json.loads(done.stdout.rpartition("RESULT")[2])

    return of


def test_a_model_of_a_tenant_is_published_and_loaded(
    context: SiteContext, ada: Member, member: Callable[[str], Member], url: str, run: Callable[..., Any],
    tmp_path: Path,
) -> None:  # fmt: skip
    first, second = (tenant.name for tenant in context.site.platform.tenants[:2])
    eve = member(second)
    token, stranger = (str(member.run(TOKEN)["token"]) for member in (ada, eve))
    name = f"{first}/{new_name('model')}"
    names = {"OPEN": name, "CLOSED": f"{name}-closed"}
    folder = tmp_path / "model"
    folder.mkdir()
    content = {"README.md": CARD.encode(), "config.json": b'{"model_type": "t5"}', "w.bin": os.urandom(WEIGHTS)}
    for file, data in content.items():
        (folder / file).write_bytes(data)
    sizes = {file: len(data) for file, data in content.items()}
    assert run(PUBLISH, stranger, FOLDER=str(folder), **names) == "HfHubHTTPError", "in another tenant's namespace"
    try:
        assert run(PUBLISH, token, FOLDER=str(folder), **names) == sorted(content)
        assert run(LOAD, token, NAME=names["CLOSED"]) == sizes
        assert run(LOAD, stranger, NAME=names["OPEN"]) == sizes
        assert run(LOAD, stranger, NAME=names["CLOSED"]) == "RepositoryNotFoundError"
        assert run(LOAD, "", NAME=names["OPEN"]) == "HfHubHTTPError", "without a token"

        log = eve.run(POD, WEB=new_name("hub"), NAME=names["OPEN"])["log"]
        assert log.strip() == content["config.json"].decode()
        with site_session(context) as http:
            hub, headers = f"{api_url(context.site)}/v3/ml-hub", {"X-Tapis-Token": stranger}
            card = http.get(f"{hub}/model_card/{name}", headers=headers, timeout=60)
            assert card.status_code == 200, card.text
            assert card.json()["result"]["model_card"] == CARD_TEXT
            links = http.get(f"{hub}/download_model/{name}", headers=headers, timeout=60).json()["result"]
            link = links["download_links"]["config.json"]
            assert link.startswith(f"{url}/{name}/resolve/")
            assert http.get(link, timeout=60).status_code == 401
            assert (
                http.get(link, headers={"Authorization": f"Bearer {stranger}"}, timeout=60).content
                == content["config.json"]
            )
            assert http.get(f"{hub}/model_card/{name}-closed", headers=headers, timeout=60).status_code == 404
    finally:
        run(DELETE, token, **names)
    assert run(LOAD, token, NAME=names["OPEN"]) == "RepositoryNotFoundError"
