"""Makes the service project, service users, services and endpoints where they are missing: identity.py FILE

FILE is JSON: auth_url, region, admin_password, services (name, type, url, password). Talks to keystone with plain
requests; the SDK costs more time to import than this takes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import requests

DOMAIN = "default"
INTERFACES = ("public", "internal")
ROLES = ("admin", "service")
"""nova's user needs both: its service token is checked for the role service."""


class Identity:
    """keystone, as its administrator.

    Args:
        url: of version 3.
        password: of the user admin.
    """

    def __init__(self, url: str, password: str) -> None:
        self._url = url
        self._session = requests.Session()
        user = {"name": "admin", "domain": {"id": DOMAIN}, "password": password}
        identity = {"methods": ["password"], "password": {"user": user}}
        scope = {"project": {"name": "admin", "domain": {"id": DOMAIN}}}
        body = {"auth": {"identity": identity, "scope": scope}}
        answer = self._session.post(f"{url}/auth/tokens", json=body, timeout=60)
        answer.raise_for_status()
        self._session.headers["X-Auth-Token"] = answer.headers["X-Subject-Token"]

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request.

        Raises:
            requests.HTTPError: keystone refused it.
        """
        answer = self._session.request(method, f"{self._url}/{path}", json=body, timeout=60)
        answer.raise_for_status()
        content: dict[str, Any] = answer.json() if answer.content else {}
        return content

    def listed(self, kind: str, *keys: str) -> dict[tuple[str, ...], dict[str, Any]]:
        """All objects of a kind by the values of these attributes; one request in the place of one per object."""
        entries: list[dict[str, Any]] = self.call("GET", f"{kind}s")[f"{kind}s"]
        return {tuple(str(entry[key]) for key in keys): entry for entry in entries}

    def make(self, kind: str, attributes: dict[str, Any]) -> dict[str, Any]:
        """A new object; returns it as keystone has it."""
        made: dict[str, Any] = self.call("POST", f"{kind}s", {kind: attributes})[kind]
        return made


def seed(identity: Identity, region: str, services: list[dict[str, str]]) -> None:
    """Makes what is missing and sets passwords and URLs that differ."""
    roles = identity.listed("role", "name")
    role_ids = [(roles.get((name,)) or identity.make("role", {"name": name}))["id"] for name in ROLES]
    projects = identity.listed("project", "name", "domain_id")
    of_services = {"name": "service", "domain_id": DOMAIN}
    project = (projects.get(("service", DOMAIN)) or identity.make("project", of_services))["id"]
    users = identity.listed("user", "name", "domain_id")
    catalogue = identity.listed("service", "type")
    endpoints = identity.listed("endpoint", "service_id", "interface")
    for entry in services:
        password = {"password": entry["password"]}
        if user := users.get((entry["name"], DOMAIN)):
            identity.call("PATCH", f"users/{user['id']}", {"user": password})
        else:
            user = identity.make("user", {"name": entry["name"], "domain_id": DOMAIN, **password})
        for role in role_ids:
            identity.call("PUT", f"projects/{project}/users/{user['id']}/roles/{role}")
        attributes = {"name": entry["name"], "type": entry["type"]}
        service = (catalogue.get((entry["type"],)) or identity.make("service", attributes))["id"]
        for interface in INTERFACES:
            endpoint = endpoints.get((service, interface))
            if endpoint is None:
                desired = {"service_id": service, "interface": interface, "url": entry["url"], "region_id": region}
                identity.make("endpoint", desired)
            elif endpoint["url"] != entry["url"]:
                identity.call("PATCH", f"endpoints/{endpoint['id']}", {"endpoint": {"url": entry["url"]}})


def main() -> None:
    """Entry point."""
    options = json.loads(Path(sys.argv[1]).read_text())
    identity = Identity(options["auth_url"], options["admin_password"])
    seed(identity, options["region"], options["services"])


if __name__ == "__main__":
    main()
