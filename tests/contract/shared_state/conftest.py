"""A real S3 server with a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from strata_bench.s3 import S3Server, find_s3_server, s3_server

from .team import Team


@pytest.fixture(scope="module")  # one server at a time: its management socket has one name in a network
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    program = find_s3_server()
    if program is None:
        pytest.skip("the server was not built: `strata doctor`")
    with s3_server(program, tmp_path_factory.mktemp("s3"), "strata-state", "a-secret-key") as s3:
        yield s3


@pytest.fixture
def team(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    created = Team(tmp_path, server, tmp_path.name, monkeypatch)
    yield created
    for run in created.runs:
        run.kill()
        run.communicate()
