"""Two operators who share a state."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyrage
import pytest

from strata.engine.run_lock import refresh
from strata.models.state import S3Location, SharedState, StateOperator
from strata.retry import wait_until
from strata.shared_state import lease
from strata.shared_state.bucket import Bucket
from strata.shared_state.sealing import IDENTITY_VARIABLE
from strata.site.paths import SitePaths
from strata_bench.s3 import S3Server

RUN = """
import os, sys
from strata.engine.run_lock import site_lock
from strata.models.state import SharedState
from strata.site.paths import SitePaths
from strata.shared_state import lease, session
lease.EXPIRY_SECONDS = 1e9  # a loaded machine may renew late
session.RENEWAL_SECONDS, session.SAVE_EVERY = float(os.environ["RENEWAL"]), 1
state = SharedState.model_validate_json(os.environ["STATE"])
paths = SitePaths("team")
with site_lock(paths, "up", state):
    before = sorted(p.name for p in paths.outputs.iterdir())
    (paths.outputs / (sys.argv[1] + ".json")).write_text(sys.argv[1] * 100)
    print("at work", *before, flush=True)
    sys.stdin.read()
"""


@dataclass
class Team:
    """Two operators, each with a state directory as on a host of its own.

    Args:
        folder: of the test.
        server: the S3 server.
        prefix: of this test's objects.
        monkeypatch: of the test.
    """

    folder: Path
    server: S3Server
    prefix: str
    monkeypatch: pytest.MonkeyPatch
    runs: list[subprocess.Popen[str]] = field(default_factory=list)
    keys: dict[str, pyrage.x25519.Identity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.monkeypatch.setenv("AWS_ACCESS_KEY_ID", self.server.bucket)
        self.monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", self.server.secret_key)
        self.monkeypatch.setattr(lease, "EXPIRY_SECONDS", 1e9)  # a loaded machine may renew late
        self.monkeypatch.setattr(lease, "SETTLE_SECONDS", 0.0)
        self.monkeypatch.setattr(lease, "POLL_SECONDS", 0.1)
        for name in ("alice", "bob"):
            self.keys[name] = pyrage.x25519.Identity.generate()
            (self.folder / f"{name}.key").write_text(f"# key of {name}\n{self.keys[name]}\n")

    def state(self, *names: str, wait_minutes: int = 0) -> SharedState:
        """The section of the site file, with these operators."""
        operators = tuple(StateOperator(name=name, key=str(self.keys[name].to_public())) for name in names or self.keys)
        place = S3Location(bucket=self.server.bucket, endpoint=self.server.url, prefix=f"{self.prefix}/")
        return SharedState(s3=place, operators=operators, wait_minutes=wait_minutes)

    def on(self, name: str) -> SitePaths:
        """Goes to an operator's host."""
        self.monkeypatch.setenv("STRATA_STATE_DIR", str(self.folder / name))
        self.monkeypatch.setenv(IDENTITY_VARIABLE, str(self.folder / f"{name}.key"))
        return SitePaths("team")

    def start(self, name: str, *, wait_minutes: int = 0, renewal: float = 600) -> subprocess.Popen[str]:
        """An operator's run, which adds an output and works until its input ends."""
        self.on(name)
        self.monkeypatch.setenv("STATE", self.state(wait_minutes=wait_minutes).model_dump_json())
        self.monkeypatch.setenv("RENEWAL", str(renewal))
        pipe = subprocess.PIPE
        # as a script starts it in the background
        line = ["env", "--ignore-signal=INT", sys.executable, "-c", RUN, name]
        run = subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self.runs.append(run)
        return run

    def outputs(self, name: str) -> list[str]:
        """What an operator finds after a command that only reads."""
        paths = self.on(name)
        refresh(paths, self.state())
        return sorted(file.name for file in paths.outputs.iterdir())

    @cached_property
    def bucket(self) -> Bucket:
        return Bucket(self.state().s3, "team")


def line(run: subprocess.Popen[str]) -> str:
    assert run.stdout is not None
    return run.stdout.readline().strip()


def until(condition: Callable[[], bool]) -> None:
    assert wait_until(lambda: None if condition() else "it", 120, pause=0.1) is None
