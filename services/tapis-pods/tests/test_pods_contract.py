"""The API answers as its OpenAPI document says, and Tapis' unmodified client reads it."""

from __future__ import annotations

import json
from collections.abc import Callable

from strata_bench.http_contract import check_contract
from strata_bench.service_processes import Service
from strata_bench.tapis_client import run_tapipy
from strata_bench.token_issuer import Issuer

from .conftest import IMAGE, User

SCRIPT = """
import json, os
from tapipy import errors
from tapipy.tapis import Tapis

def client(token):
    return Tapis(base_url=os.environ["URL"], tenant_id="lab", access_token=os.environ[token])

def error(call, **arguments):
    try:
        call(**arguments)
    except errors.BaseTapyException as error:
        return [type(error).__name__, error.message]

t, other, image = client("ALICE"), client("EVE"), os.environ["IMAGE"]
networking = {"default": {"protocol": "http", "port": 8000}}
made = t.pods.create_pod(pod_id="web1", image=image, networking=networking, description="a server",
                         environment_variables={"A": "b"}, resources={"mem_limit": 512}, status_requested="OFF")
found = {"made": [made.pod_id, made.status, made.networking.default.url, made.resources.mem_limit]}
found["list"] = [pod.pod_id for pod in t.pods.list_pods()]
found["updated"] = t.pods.update_pod(pod_id="web1", description="changed").description
found["permissions"] = t.pods.set_pod_permission(pod_id="web1", user="bob", level="USER").permissions
found["revoked"] = t.pods.delete_pod_permission(pod_id="web1", user="bob").permissions
found["started"] = t.pods.start_pod(pod_id="web1").status
found["restarted"] = t.pods.restart_pod(pod_id="web1").status_requested
found["stopped"] = t.pods.stop_pod(pod_id="web1").status_requested
found["logs"] = t.pods.get_pod_logs(pod_id="web1").action_logs[0][-16:]
found["credentials"] = t.pods.get_pod_credentials(pod_id="web1").user_username
found["twice"] = error(t.pods.create_pod, pod_id="web1", image=image)
found["image"] = error(t.pods.create_pod, pod_id="web2", image="docker.io/library/none")
found["other"] = error(other.pods.get_pod, pod_id="web1")
found["deleted"] = t.pods.delete_pod(pod_id="web1")["status"]
found["gone"] = error(t.pods.get_pod, pod_id="web1")
print(json.dumps(found))
"""


def test_tapipy_reads_it(api: Service, alice: User, user: Callable[..., User]) -> None:
    eve = user("eve", "teaching")
    done = run_tapipy(SCRIPT, URL=api.url, ALICE=alice.token, EVE=eve.token, IMAGE=IMAGE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    refused = {key: found.pop(key) for key in ("twice", "image", "other", "gone")}
    assert found == {
        "made": ["web1", "STOPPED", "web1.pods.lab.strata.test", 512],
        "list": ["web1"],
        "updated": "changed",
        "permissions": ["alice:ADMIN", "bob:USER"],
        "revoked": ["alice:ADMIN"],
        "started": "REQUESTED",
        "restarted": "RESTART",
        "stopped": "OFF",
        "logs": "created by alice",
        "credentials": "web1",
        "deleted": "success",
    }
    assert {key: kind for key, (kind, _) in refused.items()} == {
        "twice": "BaseTapyException",
        "image": "BadRequestError",
        "other": "NotFoundError",
        "gone": "NotFoundError",
    }


def test_the_api_keeps_its_contract(api: Service, issuer: Issuer, clean: None) -> None:
    token = issuer.token(preferred_username="fuzz", groups=["/tenants/research"])
    check_contract(f"{api.url}/v3/pods/openapi.json", token)
