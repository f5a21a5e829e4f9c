"""Where the time of a layer goes: steps, and in them tasks and resources; units of a booting instance."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime

from strata.access.ssh import run_ssh
from strata.site.context import SiteContext
from strata.timeline import Parts, load
from strata_bench.model import Span

PARTS = {
    "OpenStack": "openstack",
    "hosts": "hosts",
    "cluster": "cluster",
    "cloud": "pulumi-cloud",
    "platform": "pulumi-platform",
}
"""Step to the playbook or program whose parts are its own."""


def run_spans(context: SiteContext, name: str, seconds: float) -> list[Span]:
    """The last run of `strata up` on a site, as one span with its steps in it.

    Args:
        context: the site.
        name: of the whole.
        seconds: how long the command took, its start and end included.
    """
    file = context.paths.root / "runs.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    if not lines:
        return []
    entry = json.loads(lines[-1])
    ended = datetime.strptime(entry["ended"], "%Y-%m-%dT%H:%M:%S%z").timestamp()
    # "ended" is in whole seconds, so a part may seem to begin a second early
    began = ended - entry["seconds"] - 1.5
    steps = []
    for step in sorted(entry["steps"], key=lambda s: s.get("started", 0.0)):
        parts = load(context.paths.logs, PARTS[step["name"]]) if step["name"] in PARTS else None
        inner = _inner(parts, step) if parts is not None and parts.began >= began else ()
        steps.append(
            Span(name=step["name"], started=step.get("started", 0.0), seconds=round(step["seconds"], 2), inner=inner)
        )
    rest = seconds - entry["seconds"]
    if rest > 0.05:
        steps.append(Span(name="start of strata itself", started=entry["seconds"], seconds=round(rest, 2)))
    return [Span(name=name, started=0.0, seconds=round(seconds, 2), inner=tuple(steps))]


def _inner(parts: Parts, step: dict[str, object]) -> tuple[Span, ...]:
    """Parts of a step, moved to the step's own place: it may have waited for something before."""
    begin = float(str(step.get("started", 0.0))) + max(0.0, float(str(step["seconds"])) - parts.seconds)
    return tuple(Span(name=p.name, started=round(begin + p.started, 3), seconds=p.seconds) for p in parts.parts)


_UNIT = re.compile(r"^\s*(?:(\d+)min )?(?:([\d.]+)s)?(?:([\d.]+)ms)?\s+(\S+)$")


def boot_spans(context: SiteContext, address: str, shown: int = 15) -> list[Span]:
    """What an instance's systemd did at its boot, the longest units first.

    Args:
        context: the site, for its key.
        address: of the instance.
        shown: how many units.
    """
    said = _ssh(context, address, "systemd-analyze time; systemd-analyze blame --no-pager")
    end = time.monotonic() + 30
    while "not yet finished" in said and time.monotonic() < end:  # SSH answers before the boot is over
        time.sleep(0.5)
        said = _ssh(context, address, "systemd-analyze time; systemd-analyze blame --no-pager")
    total = re.search(r"= ([\d.]+)s", said) or re.search(r"in ([\d.]+)s \(userspace\)", said)
    units = [
        Span(name=m[4], started=0.0, seconds=_seconds(m)) for line in said.splitlines() if (m := _UNIT.match(line))
    ]
    if total is None and not units:
        return []
    seconds = float(total[1]) if total else max(u.seconds for u in units)
    return [Span(name="boot of an instance", started=0.0, seconds=seconds, inner=tuple(units[:shown]))]


def _seconds(match: re.Match[str]) -> float:
    minutes, seconds, milliseconds = match[1], match[2], match[3]
    return round(60 * int(minutes or 0) + float(seconds or 0) + float(milliseconds or 0) / 1000, 3)


def _ssh(context: SiteContext, address: str, command: str) -> str:
    done = run_ssh(context, address, command, options=("-o", "UserKnownHostsFile=/dev/null"), seconds=60)
    return done.stdout + done.stderr


def tree(span: Span, *, depth: int = 0, least: float = 0.01) -> list[str]:
    """The breakdown as text, the longest first; what takes less than a share of its parent is left out.

    Args:
        span: what to show.
        depth: its depth.
        least: share of the parent.
    """
    lines = [f"{'  ' * depth}{span.seconds:8.2f} s  {span.name}"]
    for inner in sorted(span.inner, key=lambda s: -s.seconds):
        if span.seconds and inner.seconds / span.seconds >= least:
            lines += tree(inner, depth=depth + 1, least=least)
    return lines
