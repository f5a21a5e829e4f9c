"""What the OpenStack provider does not read back on import, filled in from the cloud.

It imports an instance without its server group and the ids of its ports, and a port without its subnets and security
groups: the next `up` would replace every instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from strata.adopt.project import PORT, CloudObject
from strata.stacks.recovery import INSTANCE, VOLUME

RAW_STATE = "__pulumi_raw_state_delta"
"""How the bridge maps outputs to Terraform's state; without it, it uses the schema."""


def fill_in(
    resources: Iterable[dict[str, Any]],
    ports: Iterable[CloudObject],
    server_groups: Iterable[CloudObject],
    volume_types: Mapping[str, str],
    adopted: set[str],
) -> None:
    """Completes imported instances, ports and volumes in a stack's state.

    Args:
        resources: of the exported state, changed in place.
        ports: of the project.
        server_groups: of the project.
        volume_types: id of an instance to the type of its boot volume, where the site file names one.
        adopted: ids of the imported objects; others stay as they are.
    """
    by_id = {port.id: port for port in ports}
    groups = {member: group.id for group in server_groups for member in group["member_ids"] or ()}
    for resource in resources:
        if resource.get("id") not in adopted:
            continue
        inputs, outputs = resource.setdefault("inputs", {}), resource.setdefault("outputs", {})
        if resource["type"] == PORT:
            _port(inputs, outputs, by_id[resource["id"]])
        elif resource["type"] == INSTANCE:
            _instance(inputs, outputs, {port["mac_address"]: port.id for port in by_id.values()})
            if (volume_type := volume_types.get(resource["id"])) is not None:
                for devices in (inputs.get("blockDevices"), outputs.get("blockDevices")):
                    for device in devices or ():
                        device["volumeType"] = volume_type
            if (group := groups.get(resource["id"])) is not None:
                inputs["schedulerHints"] = [{"__defaults": [], "group": group}]
                outputs["schedulerHints"] = [{"group": group}]
        elif resource["type"] == VOLUME:
            inputs["enableOnlineResize"] = outputs["enableOnlineResize"] = True  # of the provider, as forceDelete
        else:
            continue
        outputs.pop(RAW_STATE, None)


def _port(inputs: dict[str, Any], outputs: dict[str, Any], port: CloudObject) -> None:
    subnets = [ip["subnet_id"] for ip in port["fixed_ips"] or ()]
    inputs["fixedIps"] = [{"__defaults": [], "subnetId": subnet} for subnet in subnets]
    outputs["fixedIps"] = [{"subnetId": subnet, "ipAddress": ""} for subnet in subnets]
    inputs["securityGroupIds"] = outputs["securityGroupIds"] = list(port["security_group_ids"] or ())


def _instance(inputs: dict[str, Any], outputs: dict[str, Any], ports: Mapping[str, str]) -> None:
    networks = outputs.get("networks") or []
    for network in networks:
        network["port"] = ports.get(network.get("mac"), "")
    inputs["networks"] = [{"__defaults": [], "port": network["port"]} for network in networks]
    for option in ("forceDelete", "stopBeforeDestroy"):  # of the provider, which nova does not know
        outputs[option] = bool(outputs.get(option))
