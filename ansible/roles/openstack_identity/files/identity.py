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
        found: dict[str, Any] = answer.json() if answer.content else {}
        return found

    def ensure(self, kind: str, query: str, attributes: dict[str, Any]) -> dict[str, Any]:
        """The object of a kind that the query finds; made with the attributes where there is none."""
        found = self.call("GET", f"{kind}s?{query}")[f"{kind}s"]
        if found:
            first: dict[str, Any] = found[0]
            return first
        made: dict[str, Any] = self.call("POST", f"{kind}s", {kind: attributes})[kind]
        return made


def seed(identity: Identity, region: str, services: list[dict[str, str]]) -> None:
    """Makes what is missing and sets passwords and URLs that differ."""
    roles = [identity.ensure("role", f"name={name}", {"name": name})["id"] for name in ROLES]
    project_attributes = {"name": "service", "domain_id": DOMAIN}
    project = identity.ensure("project", f"name=service&domain_id={DOMAIN}", project_attributes)["id"]
    for entry in services:
        attributes = {"name": entry["name"], "domain_id": DOMAIN, "password": entry["password"]}
        user = identity.ensure("user", f"name={entry['name']}&domain_id={DOMAIN}", attributes)["id"]
        identity.call("PATCH", f"users/{user}", {"user": {"password": entry["password"]}})
        for role in roles:
            identity.call("PUT", f"projects/{project}/users/{user}/roles/{role}")
        entry_attributes = {"name": entry["name"], "type": entry["type"]}
        service = identity.ensure("service", f"type={entry['type']}", entry_attributes)["id"]
        for interface in INTERFACES:
            wanted = {"service_id": service, "interface": interface, "url": entry["url"], "region_id": region}
            endpoint = identity.ensure("endpoint", f"service_id={service}&interface={interface}", wanted)
            if endpoint["url"] != entry["url"]:
                identity.call("PATCH", f"endpoints/{endpoint['id']}", {"endpoint": {"url": entry["url"]}})


def main() -> None:
    """Entry point."""
    options = json.loads(Path(sys.argv[1]).read_text())
    identity = Identity(options["auth_url"], options["admin_password"])
    seed(identity, options["region"], options["services"])


if __name__ == "__main__":
    main()
