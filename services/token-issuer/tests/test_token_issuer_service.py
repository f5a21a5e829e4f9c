"""The declaration of the token issuer: its Secret, and the keys that it publishes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from strata.catalogue.service import Service, ServiceContext
from strata_services.token_issuer.service import CLIENT, CLIENT_SECRET, SERVICE, SIGNING_KEY, public_part

Of = Callable[[Service[Any], Path], Any]


def test_the_secret_holds_a_key_and_the_clients(lab: Path, context_of: Of) -> None:
    context: ServiceContext[Any] = context_of(SERVICE, lab)
    data = context.secret_data()
    assert data["signing-key.pem"].startswith("-----BEGIN PRIVATE KEY-----")
    clients = json.loads(data["clients.json"])
    assert clients == {CLIENT: {"secret": context.secrets.get(CLIENT_SECRET), "audiences": ["ml-hub"]}}
    assert context.secret_data() == data, "the key is made once"


def test_of_the_key_before_only_the_public_part_leaves_the_store(lab: Path, context_of: Of, fake_secrets: Any) -> None:
    context: ServiceContext[Any] = context_of(SERVICE, lab)
    before = SIGNING_KEY.value(context)
    fake_secrets.stored[SIGNING_KEY.previous] = before
    del fake_secrets.stored[SIGNING_KEY.name]
    values = SERVICE.values(context)
    assert values["previousKeys"] == {"previous": public_part(before)}
    assert values["previousKeys"]["previous"].startswith("-----BEGIN PUBLIC KEY-----")
    assert before not in json.dumps([values, context.secret_data()])


def test_the_chart_mounts_what_the_secret_holds(lab: Path, context_of: Of, objects_of: Of) -> None:
    (deployment,) = (o for o in objects_of(SERVICE, lab) if o["kind"] == "Deployment")
    (volume,) = (v for v in deployment["spec"]["template"]["spec"]["volumes"] if v["name"] == "keys")
    assert volume["secret"]["secretName"] == SERVICE.secret_name
    assert {item["key"] for item in volume["secret"]["items"]} == context_of(SERVICE, lab).secret_data().keys()
