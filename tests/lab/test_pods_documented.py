"""docs/first-pod.md as written, by the unmodified tapipy and psql."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import pytest

from strata.access.https import load_balancer_address
from strata.site.context import SiteContext
from strata_bench.services import find_postgresql
from strata_bench.tapis_client import documented_lines

from .test_pods import Member, ada, member, new_name

pytestmark = pytest.mark.nightly
__all__ = ["ada", "member"]  # fixtures
NAMES = {name: re.compile(rf"\b{name}\b") for name in ("web1", "db1", "data1", "before1", "bob")}
CLEAN = """
from contextlib import suppress
for kind in ("pod", "snapshot", "volume"):
    with suppress(errors.BaseTapyException):
        getattr(t.pods, f"delete_{kind}")(**{f"{kind}_id": os.environ[kind]})
print("{}")
"""


def test_the_documented_program_runs(context: SiteContext, ada: Member, member: Callable[[str], Member]) -> None:
    postgresql = find_postgresql()
    if postgresql is None:
        pytest.skip("psql is not on this machine")
    colleague = member(context.site.platform.tenants[0].name)
    # of an interrupted run the page's own names may be left
    new = {name: new_name(name.rstrip("1")) for name in NAMES} | {"bob": colleague.name}
    program = documented_lines("api.md") + documented_lines("first-pod.md")
    for name, pattern in NAMES.items():
        program = pattern.sub(new[name], program)
    path = f"{postgresql}{os.pathsep}{os.environ['PATH']}"
    program = program.replace("<domain>", context.site.domain)
    names = [ada.host(new["web1"]), ada.host(new["db1"]), f"accounting.{context.site.domain}"]
    try:
        printed = ada.program(program, names, PATH=path, PGHOSTADDR=load_balancer_address(context))
    finally:
        ada.run(CLEAN, pod=new["db1"], snapshot=new["before1"], volume=new["data1"])
    for line in (
        ada.name,
        "<!DOCTYPE HTML>",
        "GET / HTTP/1.1",
        "CREATE TABLE",
        "written",
        "snapshot AVAILABLE",
        "cpu_hours",
    ):
        assert line in printed, printed
    assert f"{colleague.name}:READ" in printed
    assert printed.rstrip().endswith("[]"), printed
