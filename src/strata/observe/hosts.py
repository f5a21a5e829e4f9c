"""Asks each host over SSH, one call for all that is to be known."""

from __future__ import annotations

import base64
import concurrent.futures
import fnmatch
import json
import shlex
import ssl
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from strata.access.ssh import Unreachable, host_addresses, run_ssh
from strata.models.declared_hosts import declared_hosts
from strata.models.site import Site
from strata.observe import answer_probe, exhaustion
from strata.observe.facts import OBSERVE_SECONDS, HostFacts
from strata.roles import KUBERNETES_ROLES, Condition, Port, kernel_names, units_of
from strata.roles import roles as all_roles
from strata.site.context import SiteContext
from strata.site.host_list import conditions, running_roles
from strata.site.secrets.pki import validity

NO_ADDRESS = "no address yet"
SILENT_SECONDS = 5.0
"""After which a service that has not answered on its own host counts as silent."""

CARDS_SCRIPT = """
root=/etc/strata/pci/devices; [ -d $root ] || root=/sys/bus/pci/devices
for d in $root/*; do [ -r "$d/device" ] && echo "device ${d##*/} $(cat "$d/vendor") $(cat "$d/device")"; done
f=/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint; [ -r $f ] && { printf 'checkpoint '; cat $f; echo; }
"""
"""Cards of the machine, and the kubelet's own record of which pod holds which."""


def host_roles(context: SiteContext) -> dict[str, tuple[str, ...]]:
    """Roles of every host that the site asks for, the cloud's instances first."""
    return {host.name: host.roles for host in declared_hosts(context.site)}


def expected_cards(site: Site) -> dict[str, dict[str, int]]:
    """Host to the cards that it is to have, by kind; hosts without any are left out."""
    return {host.name: dict(host.accelerators) for host in declared_hosts(site) if host.accelerators}


def observe_hosts(context: SiteContext) -> dict[str, HostFacts]:
    """Units and cards of every host; one that does not respond has the reason."""
    roles = host_roles(context)
    addresses = host_addresses(context)
    met = conditions(context.site)
    with_cards = expected_cards(context.site)

    def ask(name: str) -> HostFacts:
        address = addresses.get(name)
        if address is None:
            return HostFacts(reason=NO_ADDRESS)
        if not context.paths.ssh_key.exists():
            return HostFacts(reason="not up: there is no SSH key yet")
        running = running_roles(context.site, roles[name])
        units = units_of(running)
        script = "echo reached\n" + exhaustion.SCRIPT
        if units:
            patterns = " ".join(f"'{u}.service'" for u in (*units, *kernel_names(running).values()))
            script += f"systemctl list-units --all --plain --no-legend {patterns} | sed 's/^/unit /'\n"
        if name in with_cards:
            script += CARDS_SCRIPT
        for command in (command for role in running if (command := all_roles()[role].problems)):
            # beside the probe: a backup's endpoint may be what does not respond
            script += f"({command}) 2>&1 | sed 's/^/problem /' &\n"
        ports = asked_ports(running, met)
        question = {
            "address": address,
            "seconds": SILENT_SECONDS,
            "ports": {port.port: port.protocol for port in ports},
            "dns": not set(KUBERNETES_ROLES).isdisjoint(running),
        }
        program = Path(answer_probe.__file__).read_text()
        script += f"python3 - {shlex.quote(json.dumps(question))} <<'END_OF_PROBE'\n{program}\nEND_OF_PROBE\nwait\n"
        output, error = ssh(context, address, script)
        facts = parse_answer(units, output, error, kernel_names(running))
        facts = facts.model_copy(update=parse_ports(ports, output))
        lacking = exhaustion.parse(roles[name], output.splitlines())
        return facts.model_copy(
            update={"lacks": (*map(str, (*lacking.full, *lacking.taken)),), "killed": lacking.killed}
        )

    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        return dict(zip(roles, pool.map(ask, roles), strict=True))


def asked_ports(running: Sequence[str], met: Collection[Condition]) -> list[Port]:
    """The ports of a host on which its services are asked.

    Args:
        running: roles of the host.
        met: conditions that the site meets.
    """
    units = units_of(running)
    ports = [port for role in running for port in all_roles()[role].ports if port.when in (None, *met)]
    return [port for port in ports if port.protocol is not None and port.unit in (None, *units)]


def parse_ports(ports: Iterable[Port], output: str) -> dict[str, dict[str, Any]]:
    """`silent` and `certificates` of a host, from what the probe printed.

    Args:
        ports: those that were asked.
        output: of the probe; other lines are passed over.
    """
    names = {str(port.port): port.unit or port.name for port in ports}
    limit = f"within {SILENT_SECONDS:.0f} s"
    silent: dict[str, str] = {}
    certificates: dict[str, datetime] = {}
    for line in output.splitlines():
        match line.split():
            case ["answer", "dns", "no"]:
                silent["the cluster's DNS"] = f"some queries are not answered {limit}"
            case ["answer", port, "no"]:
                silent[names[port]] = f"no answer on port {port} {limit}"
            case ["certificate", port, shown]:
                certificates[names[port]] = validity(ssl.DER_cert_to_PEM_cert(base64.b64decode(shown))).ends
    return {"silent": silent, "certificates": certificates}


def ssh(context: SiteContext, address: str, script: str) -> tuple[str, str]:
    """Output and errors of a script on a host; a host that does not respond has errors only."""
    try:
        done = run_ssh(context, address, "sh -s", text=script, seconds=OBSERVE_SECONDS)
    except Unreachable as error:
        return "", str(error)
    return done.stdout, done.stderr


def parse_answer(
    units: tuple[str, ...], output: str, error: str, others: Mapping[str, str] = MappingProxyType({})
) -> HostFacts:
    """Facts from what the script printed.

    Args:
        units: those that were asked for.
        output: standard output.
        error: standard error; its last line is the reason where nothing came.
        others: unit to the other name that it may have.
    """
    lines = output.splitlines()
    if "reached" not in lines:
        said = error.strip().splitlines()
        return HostFacts(reason=said[-1] if said else "no answer")
    states = dict.fromkeys(units, "not loaded")
    devices: dict[str, tuple[str, str]] = {}
    assigned: dict[str, str] = {}
    problems: list[str] = []
    for line in lines:
        kind, _, rest = line.partition(" ")
        words = rest.split()
        if kind == "unit" and len(words) >= 3:
            unit, active = words[0], words[2]
            names = {u: (f"{u}.service", f"{others.get(u, u)}.service") for u in units}
            matching = [u for u in units if any(fnmatch.fnmatch(unit, name) for name in names[u])]
            # of a unit's two names the one that is not used on this host is listed as inactive
            states |= {u: active for u in matching if states[u] != "active"}
        elif kind == "device" and len(words) == 3:
            devices[words[0]] = (words[1].removeprefix("0x").lower(), words[2].removeprefix("0x").lower())
        elif kind == "checkpoint":
            assigned = _assigned(rest)
        elif kind == "problem" and words:
            problems.append(rest)
    return HostFacts(units=states, devices=devices, assigned=assigned, problems=tuple(problems))


def _assigned(text: str) -> dict[str, str]:
    """Device to pod UID from the kubelet's checkpoint; empty where its form is another release's."""
    try:
        entries = json.loads(text)["Data"]["PodDeviceEntries"] or []
        return {
            str(device): str(entry["PodUID"])
            for entry in entries
            for devices in entry["DeviceIDs"].values()
            for device in devices
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
