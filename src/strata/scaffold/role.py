"""Writes a role that works: a service that greets over HTTP."""

from __future__ import annotations

import re
from pathlib import Path

from strata.errors import UserError
from strata.roles import DIRECTORY, roles
from strata.scaffold.copying import class_name, copy_template

TEMPLATE = Path(__file__).parent / "templates" / "role"
EXAMPLE = "example_role"
"""Placeholder of the role's name in the template's files and their names."""
LONGEST = 40
FIRST_PORT = 8100


def new_role(name: str, directory: Path = DIRECTORY) -> Path:
    """Copies the template with the role's name and a port that no role has.

    Args:
        name: of the role.
        directory: where the roles are.

    Returns:
        The new folder.

    Raises:
        UserError: the name is not one of an Ansible role, or there is such a role.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or len(name) > LONGEST:
        raise UserError(
            f"{name!r} is not a name of a role: small letters, digits, single underscores, at most {LONGEST}",
            fix="for instance mail_relay",
            see="a-role-cannot-be-used",
        )
    target = directory / name
    if target.exists():
        raise UserError(f"role folder {target} exists already", fix="another name, or remove it")
    taken = {port.port for role in roles(directory).values() for port in role.ports}
    free = next(port for port in range(FIRST_PORT, 65536) if port not in taken)
    words = {
        EXAMPLE: name,
        class_name(EXAMPLE): class_name(name),
        EXAMPLE.replace("_", "-"): name.replace("_", "-"),
        str(FIRST_PORT): str(free),
    }
    copy_template(TEMPLATE, target, words)
    roles.cache_clear()
    return target
