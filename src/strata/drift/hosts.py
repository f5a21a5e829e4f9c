"""Drift on hosts: what Ansible put there, compared with what is there, in one SSH call per host."""

from __future__ import annotations

import concurrent.futures
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from strata.access.ssh import Unreachable, run_ssh
from strata.drift import baseline, host_probe
from strata.drift.baseline import HostBaseline, ManagedFile, ManagedUnit
from strata.drift_model import MISSING, Drift
from strata.inventory.build import build_inventory
from strata.layers import Layer, Playbook
from strata.retry import wait_until
from strata.site.context import SiteContext

STARTING_SECONDS = 60.0
"""In which the units of a host become active after its start."""
_STARTING = frozenset({"activating", "reloading"})


def hosts_drift(context: SiteContext, playbooks: Iterable[Playbook]) -> list[Drift]:
    """Drift of what playbooks put on the site's hosts; each host is asked once.

    A host that does not respond, or on which a playbook has not succeeded yet, is a drift of its own.
    """
    inventory = build_inventory(context.site, context.cloud_outputs, context.site_file)
    drift: list[Drift] = []
    manifests: dict[str, dict[Playbook, HostBaseline]] = {}
    for playbook in playbooks:
        for host in inventory.groups.get(playbook.group, []):
            stored = baseline.load(context.paths, playbook.name, host)
            if stored is None:
                what = f"playbook {playbook.name}"
                drift.append(
                    Drift(layer=playbook.layer, object=host, property=what, wanted="succeeded", found="not yet")
                )
            else:
                manifests.setdefault(host, {})[playbook] = stored

    def look(host: str) -> list[Drift]:
        by_playbook = manifests[host]
        try:
            answer = ask(context, str(inventory.hosts[host]["ansible_host"]), by_playbook.values())
        except Unreachable as error:
            layer = next(iter(by_playbook)).layer
            return [Drift(layer=layer, object=host, property="SSH", wanted="answers", found=str(error))]
        return [
            d for playbook, manifest in by_playbook.items() for d in compare(playbook.layer, host, manifest, answer)
        ]

    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        return drift + [item for drifts in pool.map(look, manifests) for item in drifts]


def settled_hosts_drift(context: SiteContext, playbooks: Sequence[Playbook]) -> list[Drift]:
    """As `hosts_drift`, once it is more than units that start: those need a moment, not their playbook."""
    drift: list[Drift] = []

    def starting() -> str | None:
        drift[:] = hosts_drift(context, playbooks)
        only = all(item.property == "ActiveState" and item.found in _STARTING for item in drift)
        return "units that start" if drift and only else None

    wait_until(starting, STARTING_SECONDS, pause=1)
    return drift


def playbook_hosts(context: SiteContext, playbook: Playbook) -> list[str]:
    """The hosts that a playbook works on."""
    inventory = build_inventory(context.site, context.cloud_outputs, context.site_file)
    return inventory.groups.get(playbook.group, [])


def ask(context: SiteContext, address: str, manifests: Iterable[HostBaseline]) -> dict[str, Any]:
    """Digests of files and states of units from the manifests, as they are on a host.

    Raises:
        Unreachable: it does not respond in time.
    """
    question: dict[str, Any] = {"files": {}, "units": []}
    for manifest in manifests:
        question["files"] |= {path: file.digest.partition(":")[0] for path, file in manifest.files.items()}
        question["units"] += [name for name in manifest.units if name not in question["units"]]
    script = Path(host_probe.__file__).read_text()
    done = run_ssh(context, address, f"python3 -c {shlex.quote(script)}", text=json.dumps(question) + "\n")
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"ssh ended with status {done.returncode}"]
        raise Unreachable(reason[0])
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def compare(layer: Layer, host: str, desired: HostBaseline, answer: Mapping[str, Any]) -> list[Drift]:
    """Desired against actual state, for one playbook on one host."""
    drifts: list[Drift] = []
    for path, file in desired.files.items():
        drifts += _file_drift(layer, f"{host}: {path}", file, answer["files"][path])
    for name, unit in desired.units.items():
        drifts += _unit_drift(layer, f"{host}: {name}", unit, answer["units"][name])
    return drifts


def _file_drift(layer: Layer, name: str, desired: ManagedFile, actual: Mapping[str, str] | None) -> list[Drift]:
    if actual is None:
        return [Drift(layer=layer, object=name, property="state", wanted="file", found=MISSING)]
    drift: list[Drift] = []
    if actual["digest"] != desired.digest:
        drift.append(
            Drift(
                layer=layer,
                object=name,
                property="content",
                wanted=_short(desired.digest),
                found=_short(actual["digest"]),
            )
        )
    for name_of in ("mode", "owner", "group"):
        value = getattr(desired, name_of)
        if value is not None and value != actual[name_of]:
            drift.append(Drift(layer=layer, object=name, property=name_of, wanted=value, found=actual[name_of]))
    return drift


def _short(digest: str) -> str:
    algorithm, _, value = digest.partition(":")
    return f"{algorithm}:{value[:12]}"


def _unit_drift(layer: Layer, name: str, desired: ManagedUnit, actual: Mapping[str, str]) -> list[Drift]:
    drift: list[Drift] = []
    state = actual["ActiveState"] if actual["LoadState"] != "not-found" else MISSING
    # a unit whose condition exempts it need not run
    skipped = actual["ConditionResult"] == "no" and state == "inactive"
    if desired.active is True and state != "active" and not skipped:
        drift.append(Drift(layer=layer, object=name, property="ActiveState", wanted="active", found=state))
    if desired.active is False and state == "active":
        drift.append(Drift(layer=layer, object=name, property="ActiveState", wanted="inactive", found=state))
    enabled = actual["UnitFileState"]
    if desired.enabled is True and enabled in ("disabled", "masked", "bad"):
        drift.append(Drift(layer=layer, object=name, property="UnitFileState", wanted="enabled", found=enabled))
    if desired.enabled is False and enabled == "enabled":
        drift.append(Drift(layer=layer, object=name, property="UnitFileState", wanted="disabled", found=enabled))
    return drift
