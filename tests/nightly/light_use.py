"""Uses a running site lightly for hours, and compares what ages in it before and after.

Run by scripts/nightly: python tests/nightly/light_use.py lab --hours 3 --state FILE
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from strata.access.kubectl import kubectl as kubectl_of
from strata.access.kubectl import kubectl_json
from strata.access.ssh import all_addresses
from strata.observe.hosts import ssh
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site
from strata.verify.pods import PodRequest, run

PERIOD_SECONDS = 60.0
CHECKS_EVERY = 10
"""Rounds between two rounds of the checks that ask for tokens and query the hub."""
GROWTH = 5
"""More processes of one program than before that are not leak."""
PROBE = """
echo; systemctl show --property=Id,NRestarts '*.service'
echo; ps -e -o comm=
echo; journalctl --dmesg --no-pager | grep -c 'Killed process' || true
"""


@dataclass
class Ageing:
    """What should not grow.

    Args:
        restarts: of containers in pods and of units, by name.
        processes: by host and program.
        killed: processes that the kernel ended because memory ran out, by host.
        disk: bytes used where the containers are stored.
    """

    restarts: dict[str, int] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)
    killed: dict[str, int] = field(default_factory=dict)
    disk: int = 0


def measure(context: SiteContext) -> Ageing:
    """Asks the cluster and every host."""
    figures = Ageing(disk=shutil.disk_usage("/var/lib/containers").used)
    for pod in kubectl_json(context, "get", "pods", "--all-namespaces")["items"]:
        for container in pod["status"].get("containerStatuses", ()):
            key = f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']} {container['name']}"
            figures.restarts[key] = container["restartCount"]
    for name, address in all_addresses(context).items():
        read_host(figures, name, ssh(context, address, PROBE)[0])
    return figures


def read_host(figures: Ageing, name: str, answer: str) -> None:
    """Adds what PROBE printed on a host."""
    *units, processes, killed = answer.strip().split("\n\n")
    for unit in units:
        values = dict(line.split("=", 1) for line in unit.splitlines())
        if int(values.get("NRestarts", 0)):
            figures.restarts[f"{name}: {values['Id']}"] = int(values["NRestarts"])
    programs = Counter(line.strip() for line in processes.splitlines())
    figures.processes |= {f"{name}: {program}": count for program, count in programs.items()}
    figures.killed[name] = int(killed)


def problems(before: Ageing, after: Ageing) -> list[str]:
    """What has aged: restarts, processes ended because memory ran out, more and more processes."""
    return [
        *(f"{n}: restarted {c - before.restarts.get(n, 0)} times" for n, c in after.restarts.items()
          if c > before.restarts.get(n, 0)),
        *(f"{n}: {c - before.killed.get(n, 0)} processes killed because memory ran out" for n, c in after.killed.items()
          if c > before.killed.get(n, 0)),
        *(f"{n}: {before.processes.get(n, 0)} processes before, {c} now" for n, c in after.processes.items()
          if c > before.processes.get(n, 0) + GROWTH),
    ]  # fmt: skip


def strata(*arguments: str) -> None:
    """Runs a command of strata; raises CalledProcessError with its output."""
    command = [str(Path(sys.executable).with_name("strata")), *arguments]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)


def one_round(context: SiteContext, number: int) -> None:
    """A pod and `strata status`; every tenth time also tokens and queries of the hub, as the checks make them."""
    site = context.site.name

    def kubectl(*arguments: str, input: str | None = None) -> str:
        return kubectl_of(context, *arguments, text=input)

    images = context.image_outputs
    assert images is not None, "the site is not up"
    name = f"nightly-{number}"
    output, _ = run(kubectl, "default", PodRequest(name, images.images["pod-base"], ["echo", name]))
    if output.strip() != name:
        raise RuntimeError(f"pod {name} wrote {output!r}")
    strata("status", site, "--no-drift", "--json")
    if number % CHECKS_EVERY == 0:
        strata("verify", site, "-k", "token or model")


def use(context: SiteContext, end: float, start: float) -> list[str]:
    """Rounds until `end`, in seconds since 1970; returns what failed."""
    failures: list[str] = []
    while (begin := time.time()) < end:
        number = int((begin - start) / PERIOD_SECONDS)
        try:
            one_round(context, number)
        except (Exception, AssertionError) as error:  # whatever fails is the result, and the hours go on
            said = f"{error}\n{getattr(error, 'stdout', None) or ''}{getattr(error, 'stderr', None) or ''}"
            failures.append(f"round {number}: {type(error).__name__}: {said[-500:]}")
            print(failures[-1], flush=True)
        if number % CHECKS_EVERY == 0:
            print(f"{(begin - start) / 3600:.1f} h, {len(failures)} failures", flush=True)
        time.sleep(max(0.0, min(end, begin + PERIOD_SECONDS) - time.time()))
    return failures


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site")
    parser.add_argument("--hours", type=float, required=True)
    parser.add_argument("--state", type=Path, required=True, help="what an interrupted run resumes from")
    arguments = parser.parse_args()
    context = SiteContext.load(find_site(arguments.site))
    if arguments.state.exists():
        state = json.loads(arguments.state.read_text())
    else:
        state = {"start": time.time(), "before": asdict(measure(context))}
        arguments.state.write_text(json.dumps(state))
    before = Ageing(**state["before"])
    failures = use(context, state["start"] + arguments.hours * 3600, state["start"])
    after = measure(context)
    lines = [*failures, *problems(before, after)]
    print(*lines, sep="\n")
    print(
        f"disk: {(after.disk - before.disk) / 2**20:+.0f} MiB; {len(lines)} problems in {arguments.hours} h", flush=True
    )
    arguments.state.unlink()
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
