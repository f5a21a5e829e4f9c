"""A site for two days beside another: made from it, used by a list of people, gone. docs/stories.md shows it."""

from __future__ import annotations

import csv
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from strata.access.kubectl import run_kubectl
from strata.catalogue.site_services import issuer
from strata.models.accelerator_catalogue import CATALOGUE
from strata.site.context import SiteContext
from strata.site.paths import SitePaths
from strata.verify.waiting import settled
from strata_services.jupyterhub.kernel import Server
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.jupyterhub.user import User, session

from .commands import strata, up
from .healing import nothing_left_over
from .identities import identities
from .second_site import traces

if TYPE_CHECKING:
    from openstack.connection import Connection

pytestmark = pytest.mark.nightly
NAME = "hackathon"
UP_SECONDS = 3600.0
ISSUER_SECONDS = 600.0
"""In which the issuer has answered after its first start, which `up` does not wait for."""
SERVICES = ("portal", "keycloak", JUPYTERHUB.key)
"""What two days need; two labs with everything are too much for a machine of 2 cores."""
PEOPLE = ("dora", "emil", "fay")
COMPUTE = "import json, numpy; print(json.dumps(round(float(numpy.linalg.det(2 * numpy.eye(3))))))"


@pytest.fixture
def site_file(context: SiteContext, tmp_path: Path) -> Iterator[Path]:
    """Of a site like the one that runs; what was made of it is gone afterwards."""
    site = context.site
    if not context.provider.owns_cloud or JUPYTERHUB.of(site) is None or not site.platform.tenants:
        pytest.skip(f"site {site.name} is not a lab with notebooks and tenants")
    own = issuer(site)
    if own is None or own.users is None:
        pytest.skip(f"site {site.name} has users of another issuer")
    made = strata("new", NAME, "--like", context.site_file, "--directory", tmp_path)
    assert made.returncode == 0, made.stderr
    file = tmp_path / NAME / "site.yaml"
    content = yaml.safe_load(file.read_text())
    services = content["platform"]["services"]
    content["platform"]["services"] = {key: services[key] for key in services if key in SERVICES}
    file.write_text(yaml.safe_dump(content))
    yield file
    if SitePaths(NAME).root.exists():
        gone = strata("destroy", file, "--yes")
        assert gone.returncode == 0, gone.stderr


def test_hackathon(
    context: SiteContext, cloud: Connection, kubectl: Callable[..., str], site_file: Path, tmp_path: Path
) -> None:
    """Everybody on the list logs in and computes, one with a card; nothing of the site is left, and the other one is
    as it was."""
    before = identities(context, cloud, kubectl, without="")
    started = time.monotonic()
    done = strata("up", site_file, "--no-verify", "--json", seconds=UP_SECONDS)
    assert done.returncode == 0, done.stderr[-5000:] or done.stdout[-5000:]
    print(f"up: {time.monotonic() - started:.0f} s")
    people(SiteContext.load(site_file), tmp_path)
    assert up(site_file)["changed"] == 0
    gone = strata("destroy", site_file, "--yes")
    assert gone.returncode == 0, gone.stderr
    assert traces(NAME) == []
    after = identities(context, cloud, kubectl, without="")
    changed = {part for part in before.keys() | after.keys() if before.get(part) != after.get(part)}
    assert not changed, {part: (before.get(part), after.get(part)) for part in sorted(changed)}
    assert up(context.site_file)["changed"] == 0
    assert nothing_left_over(context)


def people(hackathon: SiteContext, directory: Path) -> None:
    """A list of people with an error, then the right one; all open notebooks."""
    site, own = hackathon.site, issuer(hackathon.site)
    assert own is not None
    notebooks = JUPYTERHUB.of(site)
    assert notebooks is not None
    tenant = site.platform.tenants[0].name
    registrations = directory / "registrations.csv"
    lines = [f"{name},{name}@example.org" for name in PEOPLE]
    registrations.write_text("\n".join(["name,email", *lines, "Gil Bates,gil@example.org"]))

    def add() -> subprocess.CompletedProcess[str]:
        return settled(
            lambda: strata("users", "add", hackathon.site_file, "--from", registrations, "--tenant", tenant),
            lambda done: "does not respond" not in done.stderr,
            ISSUER_SECONDS,
            pause=5,
        )

    refused = add()
    assert refused.returncode != 0
    assert "line 5: 'Gil Bates' cannot be the name of a user" in " ".join(refused.stderr.split())
    registrations.write_text("\n".join(["name,email", *lines]))
    added = add()
    assert added.returncode == 0, added.stderr
    passwords = {row["name"]: row["password"] for row in csv.DictReader(added.stdout.splitlines())}
    assert list(passwords) == list(PEOPLE)

    def kubectl(*arguments: str) -> str:
        answered = run_kubectl(hackathon, *arguments)
        assert answered.returncode == 0, answered.stderr
        return answered.stdout

    with_card = next((p for p in notebooks.profiles if p.accelerators), notebooks.profiles[0])
    profiles = dict.fromkeys(PEOPLE, notebooks.profiles[0]) | {PEOPLE[0]: with_card}
    with ExitStack() as stack:
        users = [session(hackathon, kubectl, name, stack) for name in PEOPLE]
        for user in users:
            user.log_in(own, passwords[user.name])
            user.request_server(profiles[user.name].name)
        for user in users:
            user.wait_for_server(notebooks.start_seconds)
            accelerators = profiles[user.name].accelerators
            assert cards(user) == {CATALOGUE[kind].resource: count for kind, count in accelerators.items()}
            host = user.hub.removeprefix("https://").rstrip("/")
            assert json.loads(Server(user.http, host, user.name, user.token()).run(hackathon, COMPUTE)) == 8


def cards(user: User) -> dict[str, int]:
    """Cards of the user's server, by the resource that their kind is requested as."""
    (pod,) = user.pods()
    limits = [container["resources"].get("limits", {}) for container in pod["spec"]["containers"]]
    resources = {card.resource for card in CATALOGUE.values()}
    counts = {resource: sum(int(limit.get(resource, 0)) for limit in limits) for resource in resources}
    return {resource: count for resource, count in counts.items() if count}
