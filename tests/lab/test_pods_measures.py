"""What pods use, shown to their owners, by a plain HTTP client: tapipy has no call for it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from strata.catalogue.site_services import metrics_server
from strata.site.context import SiteContext

from .test_pods import START_SECONDS, Member, ada, member, new_name

pytestmark = pytest.mark.nightly
__all__ = ["ada", "member"]
"""Fixtures."""
MEASURED_SECONDS = START_SECONDS + 480
"""In which Prometheus has scraped a new container twice and evaluated its rules, on a loaded machine."""
BUSY = "while True: pass"
MEASURES = """
import requests

def measures(pod_id):
    headers = {"X-Tapis-Token": t.get_access_jwt()}
    return requests.get(f"{url}/v3/pods/{pod_id}/measures", headers=headers, verify=ca, timeout=60)

"""
LIFE = """
small(web, command=["python3", "-c", os.environ["BUSY"]])
wait(web, "AVAILABLE")
deadline = time.monotonic() + MEASURED_SECONDS
while True:
    answer = measures(web)
    result = answer.json()["result"] if answer.status_code == 200 else None
    if result and (result["cpu"]["newest"] or 0) > 0.2 and result["memory"]["newest"]:
        break
    assert time.monotonic() < deadline, f"{web} computes, and this is measured: {answer.status_code} {answer.text}"
    time.sleep(5)
print(json.dumps(result))
""".replace("MEASURED_SECONDS", str(MEASURED_SECONDS))
STRANGER = """
print(json.dumps({"status": measures(web).status_code}))
"""


def test_a_pod_that_computes_shows_its_cpu_to_its_owner_alone(
    context: SiteContext, ada: Member, member: Callable[[str], Member]
) -> None:
    if metrics_server(context.site) is None:
        pytest.skip(f"site {context.site.name} has no Prometheus")
    web = new_name("busy")
    output = ada.run(MEASURES + LIFE, WEB=web, BUSY=BUSY)
    # small() gives it one core and 256 MiB
    for measure, most in (("cpu", 1.2), ("memory", 256 * 2**20)):
        values = output[measure]
        assert 0 < values["newest"] <= most, json.dumps(output)
        assert 0 < values["mean"] <= values["maximum"] <= most, json.dumps(output)
    assert 0 < output["seconds"] <= 3600
    assert output["gpus"] == []
    stranger = member(context.site.platform.tenants[1].name)
    assert stranger.run(MEASURES + STRANGER, WEB=web) == {"status": 404}
