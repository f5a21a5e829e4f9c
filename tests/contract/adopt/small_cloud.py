"""A small OpenStack in memory, as far as the Pulumi provider and openstacksdk ask one about a site's project.

Keystone issues tokens for one project, neutron, nova and cinder keep what is created, glance has one image. What
differs from the real services shows in tests/lab/test_adopt.py.
"""

from __future__ import annotations

import copy
import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from strata_bench.https_server import in_background

from .small_cinder import SmallCinder
from .small_neutron import Answer, Query, SmallNeutron, Thing

DISKLESS = "cpu.diskless"
FLAVORS = {
    "cpu.small": {"vcpus": 2, "ram": 2048, "disk": 20, "extra_specs": {}},
    DISKLESS: {"vcpus": 2, "ram": 2048, "disk": 0, "extra_specs": {}},
    "gpu.v100.1": {"vcpus": 4, "ram": 4096, "disk": 20, "extra_specs": {"pci_passthrough:alias": "v100:1"}},
}


class SmallCloud:
    """The services' objects.

    Args:
        project: name of the project that every credential is for.
    """

    def __init__(self, project: str) -> None:
        self.project: Thing = {"id": uuid.uuid4().hex, "name": project, "domain": {"id": "default", "name": "Default"}}
        self.neutron = SmallNeutron(self.project["id"])
        self.cinder = SmallCinder(self.project["id"])
        self.servers: dict[str, Thing] = {}
        self.key_pairs: dict[str, Thing] = {}
        self.server_groups: dict[str, Thing] = {}
        self.flavors = {name: {"id": uuid.uuid4().hex, "name": name, **size} for name, size in FLAVORS.items()}
        self.images: dict[str, Thing] = {}
        self.writes: list[str] = []
        """Requests that changed something, "POST /network/v2.0/networks"."""
        self.stopped: list[str] = []
        """Ids of servers that were shut down."""
        self.refuses = False
        """Whether keystone refuses credentials."""
        self.instance_limit: int | None = None
        """Instances that nova starts, which the quota does not show: others use the project too."""
        self.expires_after_servers: int | None = None
        """Number of instances after which the credentials expire, their tokens too."""
        self.url = ""
        self._lock = threading.RLock()
        self.add_image("debian-13")
        public = self.neutron.create("networks", {"name": "public", "router:external": True}, project="other")
        self.neutron.create(
            "subnets", {"name": "public", "network_id": public["id"], "cidr": "198.51.100.0/24"}, project="other"
        )

    def take_over(self, other: SmallCloud) -> None:
        """Becomes a copy of another cloud."""
        self.project = other.project
        self.neutron = copy.deepcopy(other.neutron)
        self.cinder = copy.deepcopy(other.cinder)
        for name in ("servers", "server_groups", "key_pairs", "flavors", "images"):
            setattr(self, name, copy.deepcopy(getattr(other, name)))

    def server(self, name: str) -> Thing:
        """The server of a name, to be changed."""
        return next(s for s in self.servers.values() if s["name"] == name)

    def add_image(self, name: str) -> str:
        """Uploads an image; returns its id."""
        identifier = str(uuid.uuid4())
        self.images[identifier] = {
            "id": identifier,
            "name": name,
            "status": "active",
            "visibility": "public",
            "tags": [],
            "container_format": "bare",
            "disk_format": "raw",
            "min_disk": 0,
            "min_ram": 0,
            "size": 1,
            "protected": False,
            "checksum": "0" * 32,
            "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z",
            "file": f"/v2/images/{identifier}/file",
            "schema": "/v2/schemas/image",
            "owner": "other",
        }
        return identifier

    @property
    def expired(self) -> bool:
        """Whether the credentials have expired."""
        return self.expires_after_servers is not None and len(self.servers) >= self.expires_after_servers

    # --- nova -----------------------------------------------------------------------------------------------------

    def create_server(self, given: Thing, hints: Thing) -> Thing:
        """Starts a server; a network without a port gets one, as nova does it."""
        boot = [d for d in given.get("block_device_mapping_v2") or [] if d["destination_type"] == "volume"]
        flavor = next(flavor for flavor in self.flavors.values() if flavor["id"] == given["flavorRef"])
        if not flavor["disk"] and not boot:
            raise Answer(403, "Only volume-backed servers are allowed for flavors with zero disk.")
        server = {
            "id": str(uuid.uuid4()),
            "name": given["name"],
            "status": "ACTIVE",
            "tenant_id": self.project["id"],
            "user_id": "user",
            "metadata": given.get("metadata") or {},
            "key_name": given.get("key_name"),
            "image": "" if boot else {"id": given["imageRef"]},
            "flavor": {"id": given["flavorRef"]},
            "created": "2026-01-01T00:00:00Z",
            "updated": "2026-01-01T00:00:00Z",
            "security_groups": [],
            "OS-EXT-STS:vm_state": "active",
            "OS-EXT-STS:power_state": 1,
            "config_drive": "",
            "OS-EXT-AZ:availability_zone": "nova",
            "accessIPv4": "",
            "accessIPv6": "",
        }
        self.servers[server["id"]] = server
        for device in boot:
            created = self.cinder.create({"size": device["volume_size"], "volume_type": device.get("volume_type")})
            # cinder reports what it was created from
            created |= {"bootable": "true", "volume_image_metadata": {"image_id": device["uuid"]}}
            self.cinder.attach(created["id"], server["id"])
        if "group" in hints:
            self.server_groups[hints["group"]]["members"].append(server["id"])
        for network in given.get("networks") or []:
            port = (
                self.neutron.objects["ports"][network["port"]]
                if network.get("port")
                else self.neutron.create("ports", {"network_id": network["uuid"]})
            )
            port |= {"device_id": server["id"], "device_owner": "compute:nova"}
        return server

    def shown_server(self, server: Thing) -> Thing:
        """A server as nova shows it."""
        addresses: dict[str, list[Thing]] = {}
        for port in self._ports_of(server):
            name = self.neutron.objects["networks"][port["network_id"]]["name"]
            addresses.setdefault(name, []).extend(
                {
                    "addr": ip["ip_address"],
                    "version": 4,
                    "OS-EXT-IPS-MAC:mac_addr": port["mac_address"],
                    "OS-EXT-IPS:type": "fixed",
                }
                for ip in port["fixed_ips"]
            )
        attached = [{"id": volume} for volume in self.cinder.of_server(server["id"])]
        return server | {"addresses": addresses, "os-extended-volumes:volumes_attached": attached}

    def _ports_of(self, server: Thing) -> list[Thing]:
        return [p for p in self.neutron.objects["ports"].values() if p["device_id"] == server["id"]]

    def compute(self, method: str, path: list[str], query: Query, body: Thing) -> Any:
        """Answers for nova; `path` is below /v2.1."""
        match (method, path):
            case ("GET", []):
                return {
                    "version": {"id": "v2.1", "status": "CURRENT", "version": "2.1", "min_version": "2.1", "links": []}
                }
            case ("GET", ["os-services"]):
                raise Answer(403, "Policy doesn't allow os_compute_api:os-services:list to be performed.")
            case ("GET", ["limits"]):
                names = (
                    "maxTotalInstances",
                    "maxTotalCores",
                    "maxTotalRAMSize",
                    "maxServerGroups",
                    "totalInstancesUsed",
                    "totalCoresUsed",
                    "totalRAMUsed",
                    "totalServerGroupsUsed",
                )
                return {"limits": {"rate": [], "absolute": dict.fromkeys(names[:4], -1) | dict.fromkeys(names[4:], 0)}}
            case ("GET", ["flavors", *_]) if path[1:] in ([], ["detail"]):
                return {"flavors": list(self.flavors.values())}
            case ("GET", ["flavors", identifier, *rest]):
                flavor = next((f for f in self.flavors.values() if f["id"] == identifier), None)
                if flavor is None:
                    raise Answer(404, identifier)
                return {"extra_specs": flavor["extra_specs"]} if rest else {"flavor": flavor}
            case ("POST", ["servers"]) if self.instance_limit is not None and len(self.servers) >= self.instance_limit:
                used = f"already used {len(self.servers)} of {self.instance_limit} instances"
                raise Answer(403, f"Quota exceeded for instances: Requested 1, but {used}")
            case ("POST", ["servers"]):
                return {"server": self.create_server(body["server"], body.get("os:scheduler_hints") or {})}
            case ("GET", ["servers", *rest]) if rest in ([], ["detail"]):
                name = query.get("name", [""])[0]
                return {"servers": [self.shown_server(s) for s in self.servers.values() if re.search(name, s["name"])]}
            case ("POST", ["os-server-groups"]):
                group = {"id": str(uuid.uuid4()), "members": [], "metadata": {}, **body["server_group"]}
                group |= {"project_id": self.project["id"], "user_id": "user"}
                self.server_groups[group["id"]] = group
                return {"server_group": group}
            case ("GET", ["os-server-groups"]):
                return {"server_groups": list(self.server_groups.values())}
            case ("GET", ["os-server-groups", identifier]) if identifier in self.server_groups:
                return {"server_group": self.server_groups[identifier]}
            case ("POST", ["os-keypairs"]):
                given = body["keypair"]
                if given["name"] in self.key_pairs:
                    raise Answer(409, f"Key pair '{given['name']}' already exists.")
                pair = {"type": "ssh", "user_id": "user", "fingerprint": "00", "id": 1, **given}
                self.key_pairs[given["name"]] = pair
                return {"keypair": pair}
            case ("GET", ["os-keypairs"]):
                return {"keypairs": [{"keypair": pair} for pair in self.key_pairs.values()]}
            case (_, ["os-keypairs", name]):
                if name not in self.key_pairs:
                    raise Answer(404, name)
                if method == "DELETE":
                    del self.key_pairs[name]
                    raise Answer(202)
                return {"keypair": self.key_pairs[name]}
            case (_, ["servers", identifier, *rest]) if identifier in self.servers:
                return self._server(method, self.servers[identifier], rest, body)
        raise Answer(404, "/".join(path))

    def _server(self, method: str, server: Thing, rest: list[str], body: Thing) -> Any:
        if rest[:1] == ["os-interface"] and method == "DELETE":
            # one that nova created goes with its attachment
            del self.neutron.objects["ports"][rest[1]]
            raise Answer(202)
        if rest == ["os-interface"]:
            return {
                "interfaceAttachments": [
                    {
                        "port_id": p["id"],
                        "net_id": p["network_id"],
                        "mac_addr": p["mac_address"],
                        "port_state": "ACTIVE",
                        "fixed_ips": p["fixed_ips"],
                    }
                    for p in self._ports_of(server)
                ]
            }
        if rest[:1] == ["os-volume_attachments"]:
            return self._attachments(method, server["id"], rest[1:], body)
        if rest == ["os-security-groups"]:
            return {"security_groups": []}
        if rest == ["metadata"]:
            server["metadata"] |= body.get("metadata") or {}
            return {"metadata": server["metadata"]}
        if rest == ["action"] and "os-start" in body:
            server["status"] = "ACTIVE"
            raise Answer(202)
        if rest == ["action"] and "os-stop" in body:
            server |= {"status": "SHUTOFF", "OS-EXT-STS:vm_state": "stopped"}
            self.stopped.append(server["id"])
            raise Answer(202)
        if method == "DELETE":
            del self.servers[server["id"]]
            for volume in self.cinder.of_server(server["id"]):
                self.cinder.detach(volume)
                if self.cinder.volumes[volume]["bootable"] == "true":
                    del self.cinder.volumes[volume]  # delete_on_termination
            for port in self._ports_of(server):
                port |= {"device_id": "", "device_owner": ""}
            raise Answer(204)
        if method == "PUT":
            server |= body["server"]
        return {"server": self.shown_server(server)}

    def _attachments(self, method: str, server: str, path: list[str], body: Thing) -> Any:
        attached = self.cinder.of_server(server)
        if not path and method == "POST":
            return {"volumeAttachment": self.cinder.attach(body["volumeAttachment"]["volumeId"], server)}
        if not path:
            return {"volumeAttachments": [self.cinder.attached(volume) for volume in attached]}
        if path[0] not in attached:
            raise Answer(404, path[0])
        if method == "DELETE":
            self.cinder.detach(path[0])
            raise Answer(202)
        return {"volumeAttachment": self.cinder.attached(path[0])}

    # --- keystone, glance -----------------------------------------------------------------------------------------

    def image(self, _method: str, path: list[str], query: Query, _body: Thing) -> Any:
        """Answers for glance; `path` is below /v2."""
        if path == ["images"]:
            names, visible = query.get("name"), query.get("visibility", ["public"])
            images = [i for i in self.images.values() if i["visibility"] in visible]
            return {
                "images": [i for i in images if names is None or i["name"] in names],
                "schema": "",
                "first": "",
            }
        if len(path) == 2 and path[1] in self.images:
            return self.images[path[1]]
        raise Answer(404, "/".join(path))

    def identity(self, method: str, path: list[str], _query: Query, _body: Thing) -> Any:
        """Answers for keystone; `path` is below /v3."""
        if not path:
            link = {"rel": "self", "href": f"{self.url}/v3/"}
            return {"version": {"id": "v3.14", "status": "stable", "links": [link], "media-types": []}}
        if self.refuses or self.expired:
            raise Answer(401, "The request you have made requires authentication.")
        if path == ["auth", "tokens"] and method == "POST":
            endpoints = {"identity": "/v3", "compute": "/compute/v2.1", "network": "/network", "image": "/image"}
            endpoints["block-storage"] = f"/volume/v3/{self.project['id']}"
            catalog = [
                {
                    "type": kind,
                    "name": kind,
                    "id": kind,
                    "endpoints": [
                        {
                            "id": f"{kind}-{i}",
                            "interface": i,
                            "region": "RegionOne",
                            "region_id": "RegionOne",
                            "url": self.url + path_,
                        }
                        for i in ("public", "internal")
                    ],
                }
                for kind, path_ in endpoints.items()
            ]
            user = {"id": "user", "name": "user", "domain": self.project["domain"]}
            token = {
                "methods": ["password"],
                "user": user,
                "project": self.project,
                "catalog": catalog,
                "audit_ids": ["a"],
            }
            roles = [{"id": "member", "name": "member"}]
            return {
                "token": {
                    **token,
                    "roles": roles,
                    "issued_at": "2026-01-01T00:00:00.000000Z",
                    "expires_at": "2099-01-01T00:00:00.000000Z",
                }
            }
        raise Answer(404, "/".join(path))

    def answer(self, method: str, target: str, body: Thing) -> Any:
        """Answers a request.

        Raises:
            Answer: with another status than 200.
        """
        split = urlsplit(target)
        parts = [part for part in split.path.split("/") if part]
        query = parse_qs(split.query)
        with self._lock:
            if self.expired and parts[:1] != ["v3"]:
                raise Answer(401, "The request you have made requires authentication.")
            if method != "GET" and parts[:1] != ["v3"]:
                self.writes.append(f"{method} {split.path}")
            match parts:
                case ["v3", *path]:
                    return self.identity(method, path, query, body)
                case ["compute", "v2.1", *path]:
                    return self.compute(method, path, query, body)
                case ["network", "v2.0", *path]:
                    return self.neutron.answer(method, path, query, body)
                case ["image", "v2", *path]:
                    return self.image(method, path, query, body)
                case ["volume", "v3", _, *path] if path:
                    return self.cinder.answer(method, path, query, body)
                case ["volume", "v3", *_] | ["volume"]:
                    link = {"rel": "self", "href": f"{self.url}/volume/v3/"}
                    versions = {"id": "v3.0", "status": "CURRENT", "version": "3.71", "min_version": "3.0"}
                    return {"versions": [versions | {"links": [link]}]}
                case [("network" | "image") as service]:
                    version = {"network": "v2.0", "image": "v2"}[service]
                    link = {"rel": "self", "href": f"{self.url}/{service}/{version}/"}
                    return {
                        "versions": [
                            {"id": {"v2": "v2.15"}.get(version, version), "status": "CURRENT", "links": [link]}
                        ]
                    }
        raise Answer(404, split.path)


@contextmanager
def serve(cloud: SmallCloud) -> Iterator[SmallCloud]:
    """Serves the cloud on a free port of the loopback interface, in `cloud.url`."""

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length)
            try:
                status, content = 200, cloud.answer(self.command, self.path, json.loads(raw) if raw else {})
                if self.command == "POST":
                    status = {
                        "servers": 202,
                        "volumes": 202,
                        **dict.fromkeys(("os-server-groups", "os-volume_attachments"), 200),
                    }.get(self.path.rpartition("/")[2], 201)
            except Answer as answer:
                # nova's name for it; keystone's and neutron's are others
                name = "forbidden" if answer.status == 403 else "error"
                status, content = answer.status, {name: {"code": answer.status, "message": str(answer)}}
            text = b"" if status == 204 else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.send_header("X-Subject-Token", "token")
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _handle

        def log_message(self, *_: object) -> None:
            pass

    with in_background(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        cloud.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield cloud
