"""Neutron in memory: networks, routers, security groups, ports and floating IPs of one project."""

from __future__ import annotations

import itertools
import uuid
from ipaddress import ip_network
from typing import Any

Thing = dict[str, Any]
Query = dict[str, list[str]]
KINDS = ("networks", "subnets", "ports", "routers", "security-groups", "security-group-rules", "floatingips")
DEFAULTS: dict[str, Thing] = {
    "networks": {
        "admin_state_up": True,
        "shared": False,
        "router:external": False,
        "status": "ACTIVE",
        "mtu": 1450,
        "port_security_enabled": True,
    },
    "subnets": {"enable_dhcp": True, "dns_nameservers": [], "host_routes": [], "service_types": []},
    "ports": {
        "device_id": "",
        "device_owner": "",
        "status": "ACTIVE",
        "port_security_enabled": True,
        "extra_dhcp_opts": [],
    },
    "routers": {"status": "ACTIVE", "distributed": False, "ha": False, "routes": [], "external_gateway_info": None},
    "security-groups": {"stateful": True},
    "security-group-rules": {
        "protocol": None,
        "port_range_min": None,
        "port_range_max": None,
        "remote_ip_prefix": None,
        "remote_group_id": None,
    },
    "floatingips": {"status": "ACTIVE", "dns_name": "", "dns_domain": "", "port_id": None},
}


class Answer(Exception):
    """A response other than 200."""

    def __init__(self, status: int, text: str = "") -> None:
        super().__init__(text)
        self.status = status


class SmallNeutron:
    """The objects, and what they do to each other.

    Args:
        project: id of the project that every credential is for.
    """

    def __init__(self, project: str) -> None:
        self.project = project
        self.objects: dict[str, dict[str, Thing]] = {kind: {} for kind in KINDS}
        self._macs = itertools.count(1)
        self.permits_pairs = False
        """Whether its policy permits allowed_address_pairs on networks of others, which the default does not."""

    def named(self, kind: str, name: str) -> Thing:
        """The object of a name, to be changed."""
        return next(o for o in self.objects[kind].values() if o["name"] == name)

    def create(self, kind: str, given: Thing, project: str | None = None) -> Thing:
        """Creates an object of neutron."""
        owner = project or self.project
        item: Thing = {
            "id": str(uuid.uuid4()),
            "name": "",
            "description": "",
            "tags": [],
            "admin_state_up": True,
            "revision_number": 1,
        }
        item |= {"project_id": owner, "tenant_id": owner, **DEFAULTS[kind], **given}
        getattr(self, f"_new_{kind.replace('-', '_')}", lambda _: None)(item)
        self.objects[kind][item["id"]] = item
        return item

    def _new_subnets(self, subnet: Thing) -> None:
        hosts = ip_network(subnet["cidr"])
        subnet.setdefault("ip_version", hosts.version)
        subnet.setdefault("gateway_ip", str(hosts[1]))
        subnet.setdefault("allocation_pools", [{"start": str(hosts[2]), "end": str(hosts[-2])}])
        subnet.setdefault("ipv6_address_mode", None)
        subnet.setdefault("ipv6_ra_mode", None)

    def _new_ports(self, port: Thing) -> None:
        port.setdefault("mac_address", f"fa:16:3e:00:00:{next(self._macs):02x}")
        port.setdefault("security_groups", [])
        pairs = port.get("allowed_address_pairs") or []
        port["allowed_address_pairs"] = [{"mac_address": port["mac_address"], **pair} for pair in pairs]
        fixed_ips = port.get("fixed_ips") or [{"subnet_id": s["id"]} for s in self._subnets(port["network_id"])[:1]]
        port["fixed_ips"] = [self._address(ip) for ip in fixed_ips]

    def _address(self, fixed_ip: Thing) -> Thing:
        subnet = self.objects["subnets"][fixed_ip["subnet_id"]]
        taken = {ip["ip_address"] for port in self.objects["ports"].values() for ip in port["fixed_ips"]}
        free = next(str(h) for h in ip_network(subnet["cidr"]).hosts() if str(h) not in taken | {subnet["gateway_ip"]})
        return {"subnet_id": subnet["id"], "ip_address": fixed_ip.get("ip_address") or free}

    def _new_security_groups(self, group: Thing) -> None:
        for version in ("IPv4", "IPv6"):
            self.create(
                "security-group-rules",
                {"security_group_id": group["id"], "direction": "egress", "ethertype": version},
                project=group["project_id"],
            )

    def _new_floatingips(self, floating_ip: Thing) -> None:
        floating_ip["floating_ip_address"] = f"198.51.100.{10 + len(self.objects['floatingips'])}"
        self._associate(floating_ip)

    def _associate(self, floating_ip: Thing) -> None:
        port = self.objects["ports"].get(floating_ip.get("port_id") or "")
        floating_ip["fixed_ip_address"] = port["fixed_ips"][0]["ip_address"] if port else None
        floating_ip["router_id"] = next(iter(self.objects["routers"]), None) if port else None

    def _subnets(self, network: str) -> list[Thing]:
        return [s for s in self.objects["subnets"].values() if s["network_id"] == network]

    def shown(self, kind: str, item: Thing) -> Thing:
        """An object as neutron shows it."""
        if kind == "networks":
            return item | {"subnets": [s["id"] for s in self._subnets(item["id"])]}
        if kind == "security-groups":
            rules = self.objects["security-group-rules"].values()
            return item | {"security_group_rules": [r for r in rules if r["security_group_id"] == item["id"]]}
        return item

    def answer(self, method: str, path: list[str], query: Query, body: Thing) -> Any:
        """Answers a request; `path` is below /v2.0.

        Raises:
            Answer: with another status than 200.
        """
        kind = path[0] if path else ""
        if kind == "extensions":
            return {"extensions": [{"alias": "port-security", "name": "Port Security", "description": "", "links": []}]}
        if kind == "quotas":
            return {"quota": {}}
        if kind not in self.objects:
            raise Answer(404, kind)
        single = kind[:-1].replace("-", "_")
        known = self.objects[kind]
        if len(path) == 1 and method == "GET":
            ignored = {"fields", "limit", "marker", "sort_key", "sort_dir", "page_reverse"}
            filters = {k.replace("tenant_id", "project_id"): v for k, v in query.items() if k not in ignored}
            matching = [
                o for o in known.values() if all(str(o.get(k)).lower() in map(str.lower, v) for k, v in filters.items())
            ]
            visible = [o for o in matching if kind != "ports" or o["project_id"] == self.project]
            return {kind.replace("-", "_"): [self.shown(kind, o) for o in visible]}
        if len(path) == 1:
            if kind == "ports":
                self._refuse_port(body[single])
            return {single: self.shown(kind, self.create(kind, body[single]))}
        item = known.get(path[1])
        if item is None:
            raise Answer(404, f"{single} {path[1]} could not be found")
        if path[2:] in (["add_router_interface"], ["remove_router_interface"]):
            return self._interface(item, path[2], body)
        if method == "DELETE":
            del known[path[1]]
            raise Answer(204)
        if method == "PUT":
            change = dict(body[single])
            if "fixed_ips" in change:
                kept = {ip["subnet_id"]: ip for ip in item["fixed_ips"]}
                change["fixed_ips"] = [kept.get(ip["subnet_id"]) or self._address(ip) for ip in change["fixed_ips"]]
            item |= change
            if kind == "floatingips":
                self._associate(item)
        return {single: self.shown(kind, item)}

    def _refuse_port(self, given: Thing) -> None:
        """As neutron's policy does, which comes before it looks for the security groups."""
        owner = self.objects["networks"][given["network_id"]]["project_id"]
        if given.get("allowed_address_pairs") and owner != self.project and not self.permits_pairs:
            raise Answer(403, "rule:create_port:allowed_address_pairs is disallowed by policy")
        for group in given.get("security_groups") or []:
            if group not in self.objects["security-groups"]:
                raise Answer(404, f"Security group {group} does not exist")

    def _interface(self, router: Thing, action: str, body: Thing) -> Thing:
        ports = self.objects["ports"]
        if action == "add_router_interface":
            subnet = self.objects["subnets"][body["subnet_id"]]
            address = {"subnet_id": subnet["id"], "ip_address": subnet["gateway_ip"]}
            given = {"network_id": subnet["network_id"], "device_id": router["id"], "fixed_ips": [address]}
            port = self.create("ports", {**given, "device_owner": "network:router_interface"})
        else:
            port = next(p for p in ports.values() if p["device_id"] == router["id"])
            del ports[port["id"]]
        return {"id": router["id"], "port_id": port["id"], "subnet_id": port["fixed_ips"][0]["subnet_id"]}
