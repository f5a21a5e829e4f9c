"""`strata` as an operator calls it, in this process: starting one takes a processor second, the command often less."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from strata.cli.main import main


def strata(*arguments: str | Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a command that reads nothing from standard input.

    An exception that would be a traceback is raised here.

    Args:
        arguments: of `strata`.
        environment: added to that of this process.

    Returns:
        Exit status and output, as of a process.
    """
    line = ["strata", *map(str, arguments)]
    output, errors = io.StringIO(), io.StringIO()
    status: object = 0
    with (
        mock.patch.object(sys, "argv", line),
        mock.patch.dict(os.environ, environment),
        mock.patch.object(urllib.request, "_opener", None),  # the first request of a process keeps its proxies there
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
    assert isinstance(status, int), status
    return subprocess.CompletedProcess(line, status, output.getvalue(), errors.getvalue())
