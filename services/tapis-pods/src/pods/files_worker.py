"""Copies snapshots and removes the files of what was deleted; it may end between any two of its steps.

A copy gets its name when it is complete, and a row goes when its files are gone, so a step that was interrupted is
done again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import structlog
from sqlalchemy import Column, Connection, Engine, RowMapping, Table, delete, func, select, update
from sqlalchemy.exc import DBAPIError

from pods.access import SNAPSHOTS, VOLUMES
from pods.copying import CopyFailed, copy
from pods.folders import FOLDER_MODE, Unsuitable, reason, walk
from pods.paths import parts_of
from pods.storage import FOLDERS, PARTIAL, Storage
from pods.tables import FILES_CHANNEL, snapshots, volumes
from pods.turns import PAUSE_SECONDS, in_background, listen, turn

LOCK = 0x66696C6573
"""Of the active worker; the number means nothing."""
RESYNC_SECONDS = 30.0
LONGEST_MESSAGE = 1000
ERRORS = (OSError, Unsuitable)

log = structlog.get_logger(__name__)


def start(engine: Engine, storage: Storage, tenants: Iterable[str]) -> None:
    """Works in threads of this process until it ends.

    Args:
        engine: of single connections.
        storage: the export.
        tenants: of the site.
    """
    wake, names = threading.Event(), tuple(tenants)
    in_background("requests for files", lambda: listen(engine, FILES_CHANNEL, lambda _: wake.set()), (DBAPIError,))
    # whatever goes wrong is not a reason to stop for good
    in_background("files", lambda: _take_turn(engine, storage, names, wake), (Exception,))


def _take_turn(engine: Engine, storage: Storage, tenants: tuple[str, ...], wake: threading.Event) -> None:
    with turn(engine, LOCK) as connection:
        if connection is None:
            return
        log.info("the worker for files is active")
        while True:
            for tenant in tenants:
                with suppress(*ERRORS):
                    storage.tidy(tenant)
            done = work(connection, storage)
            wake.wait(RESYNC_SECONDS if done else PAUSE_SECONDS)
            wake.clear()


def work(connection: Connection, storage: Storage) -> bool:
    """One pass; whether all of it was done."""
    # before the snapshots are read: one that was requested before its volume was deleted is made first
    ended = [
        (table, name, tenant)
        for table in (volumes, snapshots)
        for name, tenant in connection.execute(select(_key(table), table.c.tenant).where(table.c.deleted)).all()
    ]
    query = select(snapshots).where(snapshots.c.status == "CREATING", snapshots.c.deleted.is_(False))
    for row in connection.execute(query.order_by(snapshots.c.creation_ts)).mappings().all():
        _make(connection, storage, row)
    removed = [_remove(connection, storage, *entry) for entry in ended]
    return all(removed)


def _key(table: Table) -> Column[Any]:
    return next(iter(table.primary_key))


def _remove(connection: Connection, storage: Storage, table: Table, name: str, tenant: str) -> bool:
    kind = table.name.removesuffix("s")
    try:
        storage.remove(tenant, kind, name)
    except ERRORS as error:
        log.warning("files cannot be removed", kind=kind, name=name, tenant=tenant, reason=reason(error))
        return False
    connection.execute(delete(table).where(_key(table) == name, table.c.deleted))
    log.info("files removed", kind=kind, name=name, tenant=tenant)
    return True


def _make(connection: Connection, storage: Storage, row: RowMapping) -> None:
    name, tenant = row["snapshot_id"], row["tenant"]
    try:
        size = _copied(storage, row)
        done: dict[str, Any] = {"status": "AVAILABLE", "size": -(-size // 2**20)}
    except CopyFailed as error:
        done = {"status": "ERROR", "status_message": _storable(str(error))}
    except ERRORS as error:
        done = {"status": "ERROR", "status_message": _storable(reason(error))}
    own = (snapshots.c.snapshot_id == name, snapshots.c.status == "CREATING")
    connection.execute(update(snapshots).where(*own).values({**done, "update_ts": func.now()}))
    log.info("snapshot", name=name, tenant=tenant, status=done["status"])


def _copied(storage: Storage, row: RowMapping) -> int:
    """Makes a snapshot's files, unless they are there; returns their bytes."""
    name, tenant, to = row["snapshot_id"], row["tenant"], FOLDERS[SNAPSHOTS.kind]
    with suppress(FileNotFoundError), storage.open(tenant, to, name) as descriptor:
        # complete, by a process that ended before it could record that
        return _size(descriptor)
    with (
        storage.open(tenant, FOLDERS[VOLUMES.kind], row["source_volume_id"]) as source,
        storage.partial(tenant, "snapshot") as (parent, partial),
    ):
        os.mkdir(partial, FOLDER_MODE, dir_fd=parent)
        with storage.open(tenant, PARTIAL, partial) as target:
            size = copy(source, parts_of(row["source_volume_path"]), target, parts_of(row["destination_path"]))
        with storage.open(tenant, to, create=True) as own:
            os.rename(partial, name, src_dir_fd=parent, dst_dir_fd=own)
        return size


def _size(descriptor: int) -> int:
    return sum(entry.state.st_size for entry in walk(descriptor))


def _storable(text: str) -> str:
    return text.encode(errors="replace").decode().replace("\0", "")[:LONGEST_MESSAGE]
