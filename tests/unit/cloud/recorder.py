"""Runs a Pulumi program without engine or cloud and records what it asks for."""

from __future__ import annotations

import asyncio
import functools
import runpy
from pathlib import Path
from typing import Any

import pulumi
from pulumi.runtime import mocks, settings, stack

from strata.site.paths import REPOSITORY

Recorded = dict[tuple[str, str], dict[str, Any]]


class Recorder(mocks.Mocks):
    """Keeps the inputs of every resource by type and name."""

    def __init__(self) -> None:
        self.resources: Recorded = {}
        self.providers: dict[tuple[str, str], str] = {}
        self.lookups: list[tuple[str, dict[str, Any]]] = []

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        key = (args.typ, args.name)
        assert key not in self.resources, f"{key} twice"
        self.resources[key] = dict(args.inputs)
        self.providers[key] = args.provider or ""
        state = dict(args.inputs)
        if args.typ == "openstack:networking/port:Port":
            number = len(self.resources) % 250
            # neutron lists them in no order
            second = [f"2001:db8::{number}"] if len(args.inputs["fixedIps"]) > 1 else []
            state["allFixedIps"] = [*second, f"192.0.2.{number}"]
        return f"{args.name}-id", state

    # the SDK takes a plain dictionary too, which its types leave out
    def call(self, args: mocks.MockCallArgs) -> dict[str, Any]:  # type: ignore[override]
        self.lookups.append((args.token, dict(args.args)))
        return {"id": f"found-{args.args.get('name')}", "userId": "administrator-id", **args.args}


def run_program(program: str, site: str, recorder: Recorder) -> dict[str, Any]:
    """Runs `pulumi/<program>` for a stack; returns the stack's outputs."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    mocks.set_mocks(recorder, project=f"strata-{program}", stack=site, preview=False)
    body = functools.partial(runpy.run_path, str(REPOSITORY / "pulumi" / program), run_name="__main__")

    async def run() -> dict[str, Any]:
        settings.set_root_resource(None)  # type: ignore[arg-type]  # none, as before the first program
        await stack.run_in_stack(lambda: _discard(body()))
        root = settings.get_root_resource()
        assert isinstance(root, stack.Stack)
        return dict(await pulumi.Output.from_input(root.outputs).future() or {})

    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


def _discard(_: object) -> None:
    """The program's globals."""


def site_file(site: str) -> Path:
    """The example's site file."""
    return REPOSITORY / "inventories" / site / "site.yaml"
