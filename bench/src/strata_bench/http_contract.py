"""The contract of a service on strata-http: it serves a valid OpenAPI document, and answers according to it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path

import requests

from strata.site.paths import REPOSITORY
from strata_bench.services import locked_programs

PROJECT = REPOSITORY / "services" / "http"


@functools.cache
def _tools() -> Path:
    """Directory with schemathesis and openapi-spec-validator, which services/http/uv.lock pins for tests alone."""
    return locked_programs(PROJECT, "--no-dev", "--group=contract", "--inexact")


def check_contract(document: str, token: str, *options: str) -> None:
    """Sends generated requests, valid and invalid ones, the same in each run, by services/http/schemathesis.toml.

    Args:
        document: URL of the served OpenAPI document, on the host and port of the API.
        token: that the service accepts.
        options: of `schemathesis run`, such as "--exclude-path=/v1/numbers/{number}".

    Raises:
        AssertionError: the document is not valid, or a response has a status 5xx or one, a type of content, a header
            or a body that is not documented, or a route accepts what its schema refuses or needs no token.
    """
    served = requests.get(document, timeout=60)
    assert served.status_code == 200, served.text
    run = functools.partial(subprocess.run, capture_output=True, text=True, check=False)
    valid = run([_tools() / "openapi-spec-validator", "-"], input=json.dumps(served.json()))
    assert valid.returncode == 0, valid.stdout + valid.stderr
    command = [_tools() / "schemathesis", "--config-file", PROJECT / "schemathesis.toml", "run", "--no-color", document]
    with tempfile.TemporaryDirectory() as directory:
        done = run([*command, *options], cwd=directory, env={**os.environ, "TOKEN": token})
    assert done.returncode == 0, done.stdout + done.stderr
