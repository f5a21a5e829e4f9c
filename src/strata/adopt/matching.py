"""Which objects of a project are those that Strata would create."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strata.adopt.project import KINDS, CloudObject, Objects, of_kind
from strata.cloud.arguments import virtual_address_arguments
from strata.cloud.network import ipv4_name
from strata.cloud.role_ports import security_group_arguments
from strata.errors import UserError
from strata.models.site import Site
from strata.site.host_list import LOAD_BALANCER
from strata.site_file.problems import suggestion
from strata.stacks.rehearsal import Creation

INTERFACE_OWNERS = frozenset(
    {
        "network:router_interface",
        "network:router_interface_distributed",
        "network:ha_router_replicated_interface",
    }
)
"""Device owners of the ports by which a router is in its networks."""


@dataclass(frozen=True)
class Match:
    """A resource that the state does not have, and its object in the project.

    Args:
        creation: the resource.
        kind: one of `KINDS`.
        objects: none, one, or several that could be meant.
    """

    creation: Creation
    kind: str
    objects: tuple[CloudObject, ...]

    @property
    def key(self) -> str:
        """KIND/NAME, as `--map` takes it."""
        return f"{self.kind}/{self.creation.name}"

    @property
    def found(self) -> CloudObject | None:
        """The object; None where there is none or more than one."""
        return self.objects[0] if len(self.objects) == 1 else None


def match(site: Site, creations: Sequence[Creation], objects: Objects, chosen: Mapping[str, str]) -> list[Match]:
    """Finds the object of each resource: the chosen one, else by name, by what it belongs to, or by what it does.

    Args:
        site: the model.
        creations: resources that the state does not have.
        objects: of the project.
        chosen: KIND/NAME to id, by the operator.

    Raises:
        UserError: a choice names no such resource.
    """
    known = {f"{KINDS[c.type]}/{c.name}" for c in creations if c.type in KINDS}
    for key in chosen:
        if key not in known:
            raise UserError(
                f"--map {key}: the state has it, or site {site.name} has none",
                fix=suggestion(key, sorted(known), "KIND/NAME") if known else "leave the option out",
            )
    matcher = _Matcher(site, objects)
    for kind in KINDS.values():
        for creation in creations:
            if KINDS.get(creation.type) == kind:
                matcher.add(kind, creation, chosen.get(f"{kind}/{creation.name}"))
    return matcher.matches


class _Matcher:
    def __init__(self, site: Site, objects: Objects) -> None:
        self.matches: list[Match] = []
        self._objects = objects
        self._ids: dict[tuple[str, str], str] = {}
        cloud = site.cloud
        assert cloud is not None
        self._networks = {i.name: i.network for i in cloud.instances}
        if shared := virtual_address_arguments(site, cloud):
            self._networks[LOAD_BALANCER] = shared.network
        self._own_networks = {n.name for n in cloud.networks if not n.existing}
        self._groups = {
            f"{role}-{rule.name}": (role, rule.group)
            for role, group in security_group_arguments(site, cloud).items()
            for rule in group.ingress
        }
        self._rules: Mapping[str, Callable[[Creation], Iterable[CloudObject]]] = {
            "subnet": self._subnet,
            "router-interface": self._router_interface,
            "security-group-rule": self._rule,
            "port": self._port,
            "floating-ip": self._floating_ip,
            "volume-attachment": self._attachment,
        }

    def add(self, kind: str, creation: Creation, chosen: str | None) -> None:
        """Finds the object of one resource; those that it refers to come before."""
        if chosen is not None:
            candidates: Iterable[CloudObject] = (o for o in self._all(kind) if o.id == chosen)
        elif kind in self._rules:
            candidates = self._rules[kind](creation)
        else:
            candidates = (o for o in self._all(kind) if o.name == creation.inputs.get("name"))
        match = Match(creation, kind, tuple(candidates))
        self.matches.append(match)
        if match.found is not None:
            self._ids[kind, creation.name] = match.found.id

    def _all(self, kind: str) -> Sequence[CloudObject]:
        return of_kind(self._objects, kind)

    def _subnet(self, creation: Creation) -> list[CloudObject]:
        network = self._ids.get(("network", creation.name), self._ids.get(("network", ipv4_name(creation.name))))
        inside = [o for o in self._all("subnet") if o["network_id"] == network]
        same = [o for o in inside if o["cidr"] == creation.inputs.get("cidr")]
        return same or [o for o in inside if o.name == creation.inputs.get("name")]

    def _router_interface(self, creation: Creation) -> list[CloudObject]:
        router, subnet = (self._ids.get(k) for k in (("router", "router"), ("subnet", creation.name[len("router-") :])))
        return [
            o
            for o in self._all("port")
            if router is not None
            and o["device_id"] == router
            and o["device_owner"] in INTERFACE_OWNERS
            and subnet in _subnets(o)
        ]

    def _rule(self, creation: Creation) -> list[CloudObject]:
        role, client = self._groups.get(creation.name, (None, None))
        group = self._ids.get(("security-group", role or ""))
        remote = self._ids.get(("security-group", client or ""))
        if group is None or (client is not None and remote is None):
            return []
        desired = _rule_values(creation.inputs, remote)
        same = [o for o in self._all("security-group-rule") if o["security_group_id"] == group]
        return [o for o in same if _found_rule(o) == desired]

    def _port(self, creation: Creation) -> list[CloudObject]:
        network_name = self._networks.get(creation.name, "")
        network = self._ids.get(("network", network_name))
        if network is None and network_name in self._own_networks:
            return []
        server = self._ids.get(("instance", creation.name))
        inside = [o for o in self._all("port") if network is None or o["network_id"] == network]
        if server is not None:
            attached = [o for o in inside if o["device_id"] == server]
            return [o for o in attached if o.name == creation.name] or attached
        return [o for o in inside if o.name == creation.inputs.get("name") and not o["device_id"]]

    def _floating_ip(self, creation: Creation) -> list[CloudObject]:
        port = self._ids.get(("port", creation.name))
        bound = [o for o in self._all("floating-ip") if port is not None and o["port_id"] == port]
        free = [o for o in self._all("floating-ip") if not o["port_id"]]
        return bound or [o for o in free if o["description"] == creation.inputs.get("description")]

    def _attachment(self, creation: Creation) -> list[CloudObject]:
        volume = self._ids.get(("volume", creation.name))
        return [o for o in self._all("volume-attachment") if volume is not None and o["volume_id"] == volume]


def _subnets(port: CloudObject) -> set[str]:
    return {ip["subnet_id"] for ip in port["fixed_ips"] or ()}


Values = tuple[object, ...]


def _rule_values(inputs: Mapping[str, Any], remote: str | None) -> Values:
    first, last = (None if inputs.get(k) is None else int(inputs[k]) for k in ("portRangeMin", "portRangeMax"))
    return (
        *(inputs.get("direction"), inputs.get("ethertype"), inputs.get("protocol") or None, first, last),
        *(inputs.get("remoteIpPrefix") or None, remote),
    )


def _found_rule(rule: CloudObject) -> Values:
    keys = ("direction", "ether_type", "protocol", "port_range_min", "port_range_max")
    return tuple(rule[key] for key in (*keys, "remote_ip_prefix", "remote_group_id"))
