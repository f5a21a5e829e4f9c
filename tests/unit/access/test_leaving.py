"""`strata users remove`: what ends in which order, and what a part that does not respond leaves."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from strata.access import kubectl, leaving
from strata.catalogue.needs.bucket import secret_names
from strata.errors import UserError
from strata.models.platform import Person
from strata.progress import Silent
from strata.site.context import SiteContext


class Site:
    """Records what is done; pods that are `down` print nothing."""

    def __init__(self, context: SiteContext) -> None:
        self.context = context
        self.done: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.down = ""

    def kubectl(self, _: SiteContext, *arguments: str, text: str, seconds: float) -> Any:
        assert seconds > 0
        workload = next(argument for argument in arguments if "/" in argument)
        self.done.append(workload)
        self.requests.append(json.loads(text))
        folders = {"folders": {"homes": "carol"}} if workload == "deployment/hub" else {}
        printed = "" if workload == self.down else json.dumps({"ended": ["1 of it"], **folders})
        return subprocess.CompletedProcess(arguments, 0, printed, "no pods")

    def disable(self, _: SiteContext, name: str, *, dry_run: bool) -> None:
        if name != "carol":
            raise UserError(f"no user {name}")
        if not dry_run:
            self.done.append(f"disable {name}")

    def ssh(self, _: SiteContext, __: str, command: str, **___: Any) -> Any:
        self.done.append("mv" if "mv -T" in command else "du")
        return subprocess.CompletedProcess((), 0, "12K\n", "")

    def leave(self, name: str = "carol", *, keep_home: bool = False, dry_run: bool = False) -> list[str]:
        return leaving.leave(self.context, name, Silent(), keep_home=keep_home, dry_run=dry_run)


@pytest.fixture
def site(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> Site:
    fake = Site(context)
    monkeypatch.setattr(leaving, "disable_user", fake.disable)
    monkeypatch.setattr(leaving, "remove_user", lambda _, name: fake.done.append(f"remove {name}"))
    monkeypatch.setattr(kubectl, "run_kubectl", fake.kubectl)
    monkeypatch.setattr(leaving, "run_ssh", fake.ssh)
    host = type("Host", (), {"name": "nfs-1", "address": "10.0.0.1"})
    monkeypatch.setattr(leaving, "hosts_with", lambda *_: (host,))
    return fake


PARTS = ["deployment/hub", "statefulset/htcondor-central-manager", "statefulset/htcondor-access-point"]


def test_the_account_is_closed_first_and_removed_last(site: Site) -> None:
    ended = site.leave()
    assert site.done == ["disable carol", *PARTS, "mv", "remove carol"]
    assert "homes: carol (12K), moved to .archive" in ended
    assert all(request["name"] == "carol" and not request["dry_run"] for request in site.requests)


def test_a_dry_run_changes_nothing(site: Site) -> None:
    site.leave(dry_run=True)
    assert site.done == [*PARTS, "du"]
    assert all(request["dry_run"] for request in site.requests)


def test_a_home_is_kept_where_that_is_asked_for(site: Site) -> None:
    assert "homes: carol is kept, for the next user carol" in site.leave(keep_home=True)
    assert "mv" not in site.done


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_down_leaves_the_account_disabled(site: Site, part: str) -> None:
    site.down = part
    with pytest.raises(UserError, match=r"not all access has ended: .*: no pods") as refused:
        site.leave()
    assert "the same command again" in (refused.value.fix or "")
    assert "remove carol" not in site.done
    site.down = ""
    site.leave()
    assert site.done[-1] == "remove carol"


def test_an_unknown_user_is_refused_before_anything_ends(site: Site) -> None:
    with pytest.raises(UserError, match="no user nemo"):
        site.leave("nemo")
    assert not site.done


def test_a_user_of_the_site_file_is_refused_before_anything_ends(site: Site) -> None:
    platform = site.context.site.platform
    tenant = platform.tenants[0].model_copy(update={"members": (Person(name="carol"),)})
    changed = site.context.site.model_copy(update={"platform": platform.model_copy(update={"tenants": (tenant,)})})
    site.context = replace(site.context, site=changed)
    with pytest.raises(UserError, match=f"names carol in tenant {tenant.name}"):
        site.leave()
    assert not site.done


def test_keys_that_a_tenant_shares_are_named_with_the_command(site: Site) -> None:
    """What is printed for a site is what `strata secrets rotate` accepts there."""
    known = {name for tenant in site.context.site.platform.tenants for name in secret_names(tenant.name)}
    said = leaving.still_valid(site.context)
    command = re.search(r"`strata secrets rotate (\S+) ([^`]+)`", said)
    assert command is not None, said
    assert command[1] == site.context.site.name
    assert set(command[2].split()) <= known
    assert f"`strata up {site.context.site.name}`" in said
    services = site.context.site.platform.services.model_copy(update={"object_storage": None})
    platform = site.context.site.platform.model_copy(update={"services": services})
    without = site.context.site.model_copy(update={"platform": platform})
    assert leaving.still_valid(replace(site.context, site=without)) == ""
