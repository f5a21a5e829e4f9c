"""Commands as an operator gives them: `strata` on a site, and PostgreSQL's client on its host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strata.site.context import SiteContext

if TYPE_CHECKING:
    from testinfra.host import Host

STRATA = str(Path(sys.executable).parent / "strata")
SECONDS = 900.0
"""The longest that one command may take on a loaded machine."""


def strata(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, seconds: float = SECONDS
) -> subprocess.CompletedProcess[str]:
    """Runs a command without a terminal.

    Args:
        arguments: of `strata`.
        environment: added to ours.
        seconds: how long it may take.

    Raises:
        subprocess.TimeoutExpired: it took longer.
    """
    return subprocess.run(
        [STRATA, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
        check=False,
        timeout=seconds,
    )


def strata_line(context: SiteContext, command: str, *options: str) -> list[str]:
    """The command line of `strata COMMAND` on the site, for who follows it while it runs."""
    return [STRATA, command, str(context.site_file), *options]


def strata_json(context: SiteContext, command: str, *options: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, JSON, empty where there is none, and standard error of a command on the site."""
    done = strata(command, context.site_file, *options, "--json")
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}, done.stderr


def accounted(context: SiteContext, begin: datetime) -> dict[str, Any]:
    """What accounting answers about the time since then, to the minute."""
    form = "%Y-%m-%dT%H:%M"
    window = ("--from", begin.strftime(form), "--to", (datetime.now(UTC) + timedelta(minutes=1)).strftime(form))
    status, answer, error = strata_json(context, "accounting", *window)
    assert status == 0, error
    return answer


def up(
    file: Path, *options: str, environment: Mapping[str, str] | None = None, seconds: float = SECONDS
) -> dict[str, Any]:
    """Brings the site up as the file states; must succeed. Prints how long it took. Arguments as of `strata`."""
    done = strata("up", file, "--no-verify", "--json", *options, environment=environment, seconds=seconds)
    assert done.returncode == 0, done.stderr or done.stdout
    summary: dict[str, Any] = json.loads(done.stdout)
    print(f"up {' '.join((file.parent.name, *options))}: {summary['seconds']:.0f} s, {summary['changed']} changed")
    return summary


def psql(server: Host, database: str, query: str) -> str:
    """What PostgreSQL answers to a query without apostrophes."""
    done = server.run(f"runuser -u postgres -- psql --no-align --tuples-only --dbname {database} -c '{query}'")
    assert done.rc == 0, done.stderr
    return str(done.stdout.strip())
