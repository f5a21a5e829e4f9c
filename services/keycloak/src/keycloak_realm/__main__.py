"""`keep` keeps the realm as in the site file; `users` does one thing to its users, which standard input names.

Environment: KEYCLOAK_URL; KEYCLOAK_REALM_DIRECTORY, with site.json, the signing key and the administrator's secret."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from keycloak_realm import users
from keycloak_realm.api import Api, Refused, Unavailable
from keycloak_realm.desired import Desired, Person, load
from keycloak_realm.reconcile import reconcile

ADMINISTRATOR = "strata"
"""Client of the master realm that Keycloak is started with."""
INTERVAL_SECONDS = 300
RETRY_SECONDS = 1


def _previous_too(directory: Path, name: str) -> tuple[str, ...]:
    """A secret, and the one before its rotation where there was one."""
    files = (directory / name, directory / f"previous-{name}")
    return tuple(file.read_text() for file in files if file.is_file())


def keep(api: Api, desired: Desired, ready: Path) -> None:
    """Reconciles for ever; the file `ready` is there once it has been done, single users aside."""
    said = ""
    while True:
        begin = time.monotonic()
        try:
            problems = "\n".join(reconcile(api, desired))
        except (Refused, Unavailable) as error:
            if str(error) != said:
                said = str(error)
                print(said, file=sys.stderr)
            time.sleep(RETRY_SECONDS if isinstance(error, Unavailable) else RETRY_SECONDS * 5)
            continue
        if problems != said or not ready.exists():
            done = f"realm {desired.realm} is as in the site file ({time.monotonic() - begin:.1f} s)"
            print(f"{done}, but for:\n{problems}" if problems else done, file=sys.stderr)
        said = problems
        ready.touch()
        time.sleep(INTERVAL_SECONDS)


def manage_users(api: Api, desired: Desired, request: dict[str, Any]) -> dict[str, Any]:
    """Does what a request asks for: `{"action": "add", "name": …}`.

    Returns:
        `{"users": […]}`, `{"names": […]}`, or `{"problem": "…"}` for a request that cannot be met.
    """
    try:
        match request["action"]:
            case "list":
                return {"users": users.listed(api)}
            case "without_group":
                return {"names": users.without_group(api, desired)}
            case "add":
                person = Person(request["name"], request["email"])
                tenants, administered = request["tenants"], request["principal_investigator_of"]
                users.add(api, person, tenants, administered, request["password"])
            case "invite":
                users.invite(api, request["name"], request["password"])
            case "disable":
                users.disable(api, desired, request["name"], dry_run=request["dry_run"])
            case "remove":
                users.remove(api, desired, request["name"])
            case action:
                return {"problem": f"unknown action {action}"}
    except (users.UserProblem, Refused, Unavailable) as error:
        return {"problem": str(error)}
    return {}


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="keycloak_realm", description=__doc__)
    parser.add_argument("command", choices=("keep", "users"))
    command = parser.parse_args().command
    directory = Path(os.environ["KEYCLOAK_REALM_DIRECTORY"])
    desired = load(directory / "site.json", _previous_too(directory, "signing-key.pem"))
    secrets = _previous_too(directory, "admin-client-secret")
    api = Api(os.environ["KEYCLOAK_URL"], desired.realm, ADMINISTRATOR, secrets)
    if command == "keep":
        keep(api, desired, Path(os.environ.get("KEYCLOAK_REALM_READY", "/tmp/ready")))  # noqa: S108  # a volume of the pod
    json.dump(manage_users(api, desired, json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
