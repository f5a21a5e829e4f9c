"""Cinder in memory: volumes of one project."""

from __future__ import annotations

import uuid
from typing import Any

from .small_neutron import Answer, Query, Thing

TYPES = ("__DEFAULT__", "ssd")


class SmallCinder:
    """The volumes, and what they are attached to.

    Args:
        project: id of the project that every credential is for.
    """

    def __init__(self, project: str) -> None:
        self.project = project
        self.volumes: dict[str, Thing] = {}
        self.limits = {"volumes": -1, "gigabytes": -1}

    def named(self, name: str) -> Thing:
        """The volume of a name, to be changed."""
        return next(v for v in self.volumes.values() if v["name"] == name)

    def create(self, given: Thing) -> Thing:
        """Creates a volume."""
        volume: Thing = {
            "id": str(uuid.uuid4()),
            "name": "",
            "description": "",
            "status": "available",
            "attachments": [],
            "metadata": {},
            "availability_zone": "nova",
            "bootable": "false",
            "encrypted": False,
            "multiattach": False,
            "created_at": "2026-01-01T00:00:00.000000",
            "os-vol-tenant-attr:tenant_id": self.project,
        }
        volume |= given
        volume["volume_type"] = given.get("volume_type") or TYPES[0]
        if volume["volume_type"] not in TYPES:
            raise Answer(404, f"Volume type {volume['volume_type']} could not be found.")
        self.volumes[volume["id"]] = volume
        return volume

    def attach(self, identifier: str, server: str) -> Thing:
        """What nova does to a volume that it attaches; returns nova's view."""
        volume = self.volumes[identifier]
        if volume["status"] != "available":
            raise Answer(400, f"Invalid volume: volume {identifier} status must be available or downloading")
        device = "/dev/vdb"
        volume["attachments"] = [{"id": identifier, "volume_id": identifier, "server_id": server, "device": device}]
        volume["status"] = "in-use"
        # cinder shows this key of its own among those of the user
        volume["metadata"] = volume["metadata"] | {"attached_mode": "rw"}
        return self.attached(identifier)

    def attached(self, identifier: str) -> Thing:
        """An attachment as nova shows it."""
        (attachment,) = self.volumes[identifier]["attachments"]
        return {
            "id": identifier,
            "volumeId": identifier,
            "serverId": attachment["server_id"],
            "device": attachment["device"],
        }

    def detach(self, identifier: str) -> None:
        """What nova does to a volume that it detaches."""
        self.volumes[identifier] |= {"attachments": [], "status": "available"}

    def of_server(self, server: str) -> list[str]:
        """Ids of the volumes that a server has."""
        return [v["id"] for v in self.volumes.values() if any(a["server_id"] == server for a in v["attachments"])]

    def answer(self, method: str, path: list[str], query: Query, body: Thing) -> Any:
        """Answers a request; `path` is below /v3/<project>.

        Raises:
            Answer: with another status than 200.
        """
        match (method, path):
            case ("GET", ["limits"]):
                used = sum(v["size"] for v in self.volumes.values())
                limits = {
                    "maxTotalVolumes": self.limits["volumes"],
                    "maxTotalVolumeGigabytes": self.limits["gigabytes"],
                    "totalVolumesUsed": len(self.volumes),
                    "totalGigabytesUsed": used,
                }
                return {"limits": {"rate": [], "absolute": limits}}
            case ("GET", ["types"]):
                return {"volume_types": [{"id": name, "name": name, "is_public": True} for name in TYPES]}
            case ("POST", ["volumes"]):
                given = {key: value for key, value in body["volume"].items() if value not in (None, "")}
                return {"volume": self.create(given)}
            case ("GET", ["volumes", *rest]) if rest in ([], ["detail"]):
                names = query.get("name")
                return {"volumes": [v for v in self.volumes.values() if names is None or v["name"] in names]}
            case (_, ["volumes", identifier, *rest]) if identifier in self.volumes:
                return self._volume(method, self.volumes[identifier], rest, body)
        raise Answer(404, "/".join(path))

    def _volume(self, method: str, volume: Thing, rest: list[str], body: Thing) -> Any:
        if rest == ["action"] and "os-extend" in body:
            size = body["os-extend"]["new_size"]
            if size <= volume["size"]:
                raise Answer(400, f"New size for extend must be greater than current size. ({size} / {volume['size']})")
            volume["size"] = size
            raise Answer(202)
        if method == "DELETE":
            if volume["status"] != "available":
                raise Answer(400, "Invalid volume: Volume status must be available or error")
            del self.volumes[volume["id"]]
            raise Answer(202)
        if method == "PUT":
            volume |= {key: value for key, value in body["volume"].items() if value is not None}
        return {"volume": volume}
