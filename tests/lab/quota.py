"""What a tenant uses counts together: its servers, batch jobs and pods."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from strata.catalogue.needs.tenant_quota import RESERVATION
from strata.models.accelerator_catalogue import CATALOGUE
from strata.site.context import SiteContext
from strata_services.htcondor.service import SERVICE as HTCONDOR

from .batch import submission

if TYPE_CHECKING:
    from .test_two_tenants import Member

DENIED = "reservations are for the site's services"
WAITS_SECONDS = 120
WAITS = """
this, end = f"ClusterId == {{job.cluster()}}", time.monotonic() + {seconds}
said = ""
while not said and time.monotonic() < end:
    time.sleep(1)
    said = schedd.query(this, ["StrataWaitsFor"])[0].get("StrataWaitsFor", "")
schedd.act(htcondor2.JobAction.Remove, this)
print(json.dumps(said))
"""


def counts_together(
    context: SiteContext, kubectl: Callable[..., str], bob: Member, alice: Member, kind: str, notebook: str
) -> None:
    """All of the tenant's cards are in a member's server: nothing else of the tenant gets one, and each refusal names
    the server.

    Args:
        context: of the site.
        kubectl: of the operator.
        bob: has the server.
        alice: administrator of the same tenant, without a server.
        kind: of the cards.
        notebook: profile without cards.
    """
    resource, namespace, name = CATALOGUE[kind].resource, f"--namespace={bob.tenant.name}", bob.user.name
    quota = json.loads(kubectl("get", "resourcequota", bob.tenant.name, namespace, "--output=json"))["status"]
    assert quota["used"][f"requests.{resource}"] == quota["hard"][f"requests.{resource}"], quota
    (pod,) = bob.user.pods()
    reservation = f"reservation-{pod['metadata']['name']}"
    shown = bob.kubectl(context, "get", "pods", f"--selector={RESERVATION}=server", "--output=name")
    assert f"pod/{reservation}" in shown.split()
    for member in (bob, alice):
        for attempt in (("delete", "pod", reservation), ("label", "pod", reservation, f"{RESERVATION}-")):
            assert DENIED in member.kubectl(context, *attempt), attempt
    limits = json.dumps(
        {"spec": {"containers": [{"name": "c", "image": "c", "resources": {"limits": {resource: "1"}}}]}}
    )
    said = bob.kubectl(context, "run", "two-tenants", "--image=c", f"--overrides={limits}")
    assert "exceeded quota" in said, said
    own = f"/users/{alice.user.name}"
    try:
        given = alice.configuration("PUT", alice.tenant, own, {"accelerators": {kind: 1}})
        assert given.status_code == 200, given.text
        alice.user.request_server(notebook)
        with pytest.raises(AssertionError, match=f"The quota of tenant {bob.tenant.name} .* the server of {name}"):
            alice.user.wait_for_hub(WAITS_SECONDS)
    finally:
        alice.configuration("DELETE", alice.tenant, own)
    pool = HTCONDOR.of(context.site)
    if pool is not None and pool.accelerator == kind:
        waits = submission("/bin/true", "", cards=1) + WAITS.format(seconds=WAITS_SECONDS)
        said = str(bob.run(context, waits))
        assert said == f"the quota of tenant {bob.tenant.name}: {resource} are used by the server of {name}"
