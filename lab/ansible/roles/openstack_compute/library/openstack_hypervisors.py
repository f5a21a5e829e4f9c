#!/usr/bin/python3
"""Ansible module: waits until nova has all hypervisors."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: openstack_hypervisors
short_description: Waits until nova has the named hypervisors, up and in a cell
options:
  auth_url: {description: keystone's version 3., type: str, required: true}
  compute_url: {description: nova's version 2.1., type: str, required: true}
  password: {description: Password of the user admin., type: str, required: true}
  names: {description: Hypervisors that must be up., type: list, elements: str, required: true}
  units: {description: Units whose failure ends the wait., type: list, elements: str, default: []}
  running:
    description: Units that must run, because nova calls a hypervisor up for two minutes after its end.
    type: list
    elements: str
    default: []
  absent:
    description: Hypervisors whose nova-compute has ended; nova and placement forget them.
    type: list
    elements: str
    default: []
  timeout: {description: Longest wait in seconds., type: int, default: 120}
"""

RETURN = r"""
hypervisors:
  description: State by name.
  type: dict
"""


def call(
    url: str, token: str | None = None, body: dict[str, Any] | None = None, method: str | None = None
) -> tuple[dict[str, Any], str | None]:
    """One request; its JSON and the token that keystone issued."""
    headers = {"Content-Type": "application/json", "X-OpenStack-Nova-API-Version": "2.53"}
    if token:
        headers["X-Auth-Token"] = token
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.loads(answer.read() or b"{}"), answer.headers.get("X-Subject-Token")


def token_of(auth_url: str, password: str) -> str | None:
    """A token of the administrator."""
    user = {"name": "admin", "domain": {"id": "default"}, "password": password}
    scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
    body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}
    return call(f"{auth_url}/auth/tokens", body=body)[1]


def forget(module: AnsibleModule, url: str, token: str | None, names: list[str]) -> list[str]:
    """Ends nova-compute of these hosts and deletes their services, and with them hypervisors and resource providers.

    Hosts that still have instances are left alone.
    """
    listing, _ = call(f"{url}/os-hypervisors/detail?with_servers=true", token)
    occupied = {h["service"]["host"] for h in listing["hypervisors"] if h.get("servers")}
    services, _ = call(f"{url}/os-services?binary=nova-compute", token)
    ids = {s["host"]: s["id"] for s in services["services"]}
    free = [name for name in names if name not in occupied]
    for name in free:
        module.run_command(["systemctl", "disable", "--now", f"nova-compute@{name}.service"], check_rc=True)
        if name in ids:
            call(f"{url}/os-services/{ids[name]}", token, method="DELETE")
        Path(f"/etc/nova/compute-{name}.conf").unlink(missing_ok=True)
    return free


def hypervisors(auth_url: str, compute_url: str, password: str) -> dict[str, str]:
    """State of each hypervisor that nova lists."""
    token = token_of(auth_url, password)
    listing, _ = call(f"{compute_url}/os-hypervisors/detail", token)
    return {h["hypervisor_hostname"]: h["state"] for h in listing["hypervisors"]}


def stopped(module: AnsibleModule, units: list[str]) -> list[str]:
    """The units that do not run, or still start."""
    if not units:
        return []
    _, out, _ = module.run_command(["systemctl", "is-active", *units])
    return [unit for unit, state in zip(units, out.split(), strict=True) if state != "active"]


def failed_unit(module: AnsibleModule, units: list[str]) -> str | None:
    """The first unit that systemd gave up, with the last lines of its journal.

    One that ended badly while it was being restarted counts as failed until its turn comes; it has a job.
    """
    if not units:
        return None
    _, out, _ = module.run_command(["systemctl", "show", "--property=Id,ActiveState,Job", *units])
    for block in out.strip().split("\n\n"):
        unit = dict(line.split("=", 1) for line in block.splitlines())
        if unit["ActiveState"] == "failed" and unit.get("Job", "") in {"", "0"}:
            command = ["journalctl", "--unit", unit["Id"], "--lines", "5", "--output", "cat", "--no-pager"]
            _, lines, _ = module.run_command(command)
            return f"{unit['Id']} failed: {lines.strip()}"
    return None


def forget_all(module: AnsibleModule, end: float) -> None:
    """Has nova forget the absent hypervisors; waits for an API that is just starting."""
    parameters = module.params
    while True:
        try:
            token = token_of(parameters["auth_url"], parameters["password"])
            gone = forget(module, parameters["compute_url"], token, parameters["absent"])
            module.exit_json(changed=bool(gone), hypervisors=dict.fromkeys(gone, "gone"))
        except (OSError, ValueError) as error:
            if time.monotonic() > end:
                module.fail_json(msg=f"nova does not respond: {error}")
        time.sleep(1)


def main() -> None:
    """Runs the module."""
    module = AnsibleModule(
        argument_spec={
            "auth_url": {"type": "str", "required": True},
            "compute_url": {"type": "str", "required": True},
            "password": {"type": "str", "required": True, "no_log": True},
            "names": {"type": "list", "elements": "str", "required": True},
            "units": {"type": "list", "elements": "str", "default": []},
            "running": {"type": "list", "elements": "str", "default": []},
            "absent": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    parameters = module.params
    end = time.monotonic() + parameters["timeout"]
    if parameters["absent"]:
        forget_all(module, end)
    while True:
        states: dict[str, str] = {}
        said = ""
        try:
            states = hypervisors(parameters["auth_url"], parameters["compute_url"], parameters["password"])
        except (urllib.error.URLError, OSError, ValueError) as error:
            said = str(error)
        missing = [name for name in parameters["names"] if states.get(name) != "up"]
        missing += stopped(module, parameters["running"])
        if not missing:
            module.exit_json(changed=False, hypervisors=states)
        if broken := failed_unit(module, parameters["units"]):
            module.fail_json(msg=broken, hypervisors=states)
        if time.monotonic() > end:
            module.fail_json(msg=f"not up: {', '.join(missing)}. nova lists {states or said}", hypervisors=states)
        time.sleep(0.5)


if __name__ == "__main__":
    main()
