"""neutron's objects in one file, for the lab's network agent."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from neutron_lib import constants
from neutron_lib import context as neutron_context
from neutron_lib.plugins import constants as plugin_constants
from neutron_lib.plugins import directory
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
SETTLE_SECONDS = 0.02
"""Changes come in groups; one file is enough for all of them."""

CONFIRM_SECONDS = 1.0
"""After the last change the objects are read once more: some callbacks come before the end of their transaction."""

ROUTER_OWNERS = [
    constants.DEVICE_OWNER_ROUTER_INTF,
    constants.DEVICE_OWNER_ROUTER_GW,
    constants.DEVICE_OWNER_FLOATINGIP,
]
PORT_KEYS = (
    *("id", "network_id", "mac_address", "security_groups", "port_security_enabled", "admin_state_up"),
    *("device_id", "device_owner", "project_id"),
)
RULE_KEYS = (
    *("direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix"),
    *("remote_group_id", "remote_address_group_id"),
)


def collect() -> dict[str, Any]:
    """Everything that the agent needs, as neutron has it now."""
    context = neutron_context.get_admin_context()
    plugin = directory.get_plugin()
    l3 = directory.get_plugin(plugin_constants.L3)
    networks = {network["id"]: network for network in plugin.get_networks(context)}
    subnets = plugin.get_subnets(context)
    ports = plugin.get_ports(context)
    groups = plugin.get_security_groups(context)
    routers = l3.get_routers(context) if l3 else []
    floating = l3.get_floatingips(context) if l3 else []
    address_groups = plugin.get_address_groups(context)
    external = {name for name, network in networks.items() if network.get("router:external")}
    return {
        "subnets": [_subnet(s) for s in subnets if s["network_id"] not in external],
        "external_subnets": [_subnet(s) for s in subnets if s["network_id"] in external],
        "ports": [_port(p) for p in ports if p["network_id"] not in external],
        "groups": {g["id"]: [_only(rule, RULE_KEYS) for rule in g["security_group_rules"]] for g in groups},
        "address_groups": {g["id"]: [str(a) for a in g["addresses"]] for g in address_groups},
        "routers": [_router(r, ports) for r in routers if r["admin_state_up"]],
        "floating_ips": [
            {
                "address": str(f["floating_ip_address"]),
                "fixed_address": str(f["fixed_ip_address"]),
                "network_id": f["floating_network_id"],
            }
            for f in floating
            if f["fixed_ip_address"]
        ],
    }


def _only(row: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: row.get(key) for key in keys}


def _subnet(subnet: dict[str, Any]) -> dict[str, Any]:
    return _only(subnet, ("id", "network_id", "gateway_ip")) | {"cidr": str(subnet["cidr"])}


def _port(port: dict[str, Any]) -> dict[str, Any]:
    pairs = [
        {"mac_address": str(pair["mac_address"]).lower(), "ip_address": str(pair["ip_address"])}
        for pair in port.get("allowed_address_pairs") or []
    ]
    return _only(port, PORT_KEYS) | {
        "mac_address": str(port["mac_address"]).lower(),
        "port_security_enabled": port.get("port_security_enabled", True),
        "fixed_ips": [str(address["ip_address"]) for address in port["fixed_ips"]],
        "allowed_address_pairs": pairs,
    }


def _router(router: dict[str, Any], ports: list[dict[str, Any]]) -> dict[str, Any]:
    interfaces = [
        port
        for port in ports
        if port["device_id"] == router["id"] and port["device_owner"] == constants.DEVICE_OWNER_ROUTER_INTF
    ]
    return {
        "id": router["id"],
        "subnets": sorted({address["subnet_id"] for port in interfaces for address in port["fixed_ips"]}),
        "external": bool(router.get("external_gateway_info")),
    }


def report() -> None:
    """Reports to neutron that what is in the file is in force, as agents do for their ports and addresses."""
    context = neutron_context.get_admin_context()
    plugin = directory.get_plugin()
    l3 = directory.get_plugin(plugin_constants.L3)
    for port in plugin.get_ports(context, filters={"device_owner": ROUTER_OWNERS}):
        if port["status"] != constants.PORT_STATUS_ACTIVE and port["admin_state_up"]:
            plugin.update_port_status(context, port["id"], constants.PORT_STATUS_ACTIVE)
    for address in l3.get_floatingips(context) if l3 else ():
        status = constants.FLOATINGIP_STATUS_ACTIVE if address["fixed_ip_address"] else constants.FLOATINGIP_STATUS_DOWN
        if address["status"] != status:
            l3.update_floatingip_status(context, address["id"], status)


class ObjectsFile:
    """Rewrites the file after every change, from a thread of its own.

    Args:
        path: of the file; its directory must exist and be neutron's.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None
        self._start = threading.Lock()
        self._busy = threading.Lock()
        # the server of remote calls forks its worker while this thread may be at work in the parent; the worker would
        # have neutron's locks as that thread held them, and wait for ever, with the file's lock in its hand
        os.register_at_fork(
            before=self._busy.acquire, after_in_parent=self._busy.release, after_in_child=self._busy.release
        )

    def touch(self, *_: Any, **__: Any) -> None:
        """Something changed; takes the arguments of neutron's callbacks."""
        with self._start:
            # not before: the process that loads the plugins may fork
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="lab-objects", daemon=True)
                self._thread.start()
        self._changed.set()

    def _run(self) -> None:
        settled = True
        while True:
            self._changed.wait(timeout=None if settled else CONFIRM_SECONDS)
            settled = not self._changed.is_set()
            time.sleep(SETTLE_SECONDS)
            self._changed.clear()
            try:
                with self._busy:
                    self.write()
                    report()
            except Exception:
                LOG.exception("%s could not be written; another try follows", self._path)
                time.sleep(RETRY_SECONDS)
                self._changed.set()

    def write(self) -> None:
        """Writes what is there now.

        Raises:
            OSError: the directory is missing or not writable.
        """
        # the API and the server of remote calls both write: what is read later must be written later
        lock = os.open(self._path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            # lockf, not flock: a process that forks while it holds the lock must not leave it to its children for good
            fcntl.lockf(lock, fcntl.LOCK_EX)
            text = json.dumps(collect(), sort_keys=True)
            if self._path.exists() and self._path.read_text() == text:
                return
            partial = self._path.with_suffix(".part")
            partial.write_text(text)
            partial.replace(self._path)
        finally:
            os.close(lock)
