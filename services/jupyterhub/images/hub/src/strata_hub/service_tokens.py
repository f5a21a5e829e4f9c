"""Tokens of the hub's services: those of an earlier configuration end."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from jupyterhub import orm

FROM_CONFIGURATION = "from config"
"""JupyterHub's note of such tokens. It adds a new one, and keeps the one before, which a rotation replaced."""


def remove_former(db: Any, configured: Collection[str]) -> int:
    """Removes tokens of services that the configuration does not have.

    Args:
        db: session of the hub's database.
        configured: tokens.

    Returns:
        how many there were.
    """
    tokens = db.query(orm.APIToken).filter(orm.APIToken.service_id.is_not(None)).all()
    former = [t for t in tokens if t.note == FROM_CONFIGURATION and not any(t.match(value) for value in configured)]
    for token in former:
        db.delete(token)
    db.commit()
    return len(former)
