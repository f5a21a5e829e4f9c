"""With OpenStack's Python: the real placement allocates all cards of a host; prints what it answered, and how fast.

Arguments: a placement.conf; a directory for the database; number of hosts; number of cards of each.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import webob
from oslo_config import cfg
from placement import conf as placement_conf
from placement import db_api, deploy
from placement.db.sqlalchemy import migration

CARD = "CUSTOM_PCI_10DE_1DB4"

file, directory, hosts, cards = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
config = cfg.ConfigOpts()
placement_conf.register_opts(config)
own = directory / "database.conf"
own.write_text(f"[placement_database]\nconnection = sqlite:///{directory}/placement.sqlite\n")
config([], project="placement", default_config_files=[str(own), file])
config.set_override("auth_strategy", "noauth2", "api")
db_api.configure(config)
migration.create_schema()
app = deploy.loadapp(config)


def ask(method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the API answers, as the newest version does."""
    headers = {"x-auth-token": "admin", "openstack-api-version": "placement latest", "accept": "application/json"}
    request = webob.Request.blank(path, method=method, headers=headers)
    if body is not None:
        request.content_type, request.body = "application/json", json.dumps(body).encode()
    response = request.get_response(app)
    if response.status_int >= 300:
        raise SystemExit(f"{method} {path}: {response.status} {response.text}")
    return dict(response.json) if response.body else {}


ask("PUT", f"/resource_classes/{CARD}")
for number in range(hosts):
    parent = str(uuid4())
    ask("POST", "/resource_providers", {"name": f"gpu{number}", "uuid": parent})
    total = {"VCPU": {"total": 64}, "MEMORY_MB": {"total": 524288}}
    ask("PUT", f"/resource_providers/{parent}/inventories", {"resource_provider_generation": 0, "inventories": total})
    for card in range(cards):
        child = str(uuid4())
        name = f"gpu{number}_0000:{card:02x}:00.0"
        ask("POST", "/resource_providers", {"name": name, "uuid": child, "parent_provider_uuid": parent})
        total = {CARD: {"total": 1}}
        ask(
            "PUT", f"/resource_providers/{child}/inventories", {"resource_provider_generation": 0, "inventories": total}
        )
# as nova asks for one instance with all cards of a host, a group for each; but for the limit, which is applied at last
groups = "".join(f"&resources{number}={CARD}:1" for number in range(1, cards + 1))
begin = time.monotonic()
answer = ask("GET", f"/allocation_candidates?resources=VCPU:8,MEMORY_MB:4096{groups}&group_policy=none")
seconds = time.monotonic() - begin
requests = answer["allocation_requests"]
roots = {p["root_provider_uuid"] for p in answer["provider_summaries"].values()}
whole = [r for r in requests if sum(CARD in a["resources"] for a in r["allocations"].values()) == cards]
json.dump({"candidates": len(requests), "whole": len(whole), "hosts": len(roots), "seconds": seconds}, sys.stdout)
