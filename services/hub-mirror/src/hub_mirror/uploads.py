"""Bytes that members upload: written beside, checked by their SHA-256, then named by it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import HTTPException

from hub_mirror import published
from hub_mirror.mirror import Mirror
from hub_mirror.published import File, OverLimit, Published, object_path
from hub_mirror.refusals import refusal


def git_oid(content: bytes) -> str:
    """Git's id of a blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def pointer_oid(sha256: str, size: int) -> str:
    """Git's id of the pointer that git LFS stores in place of a file."""
    return git_oid(f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode())


async def store_text(mirror: Mirror, record: Published, text: str) -> File:
    """A file that came inside of a commit.

    Args:
        mirror: the parts.
        record: repository of the file.
        text: its bytes in base64.

    Raises:
        HTTPException: 400 for what is not base64, 413 beyond the tenant's limit.
    """
    try:
        content = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise refusal(400, "the content of a file is not base64") from error
    sha256 = hashlib.sha256(content).hexdigest()
    part = _part(mirror)
    try:
        await asyncio.to_thread(part.write_bytes, content)
        await _place(mirror, record, part, sha256, len(content))
    finally:
        part.unlink(missing_ok=True)
    return File(sha256, len(content), git_oid(content), large=False)


async def store_stream(mirror: Mirror, record: Published, stream: AsyncIterator[bytes], sha256: str, size: int) -> None:
    """A large file, as it arrives.

    Raises:
        HTTPException: 400 for other bytes than the caller named, 413 beyond the tenant's limit.
    """
    await check_room(mirror, record, size)
    part = _part(mirror)
    digest, written = hashlib.sha256(), 0
    try:
        descriptor = await asyncio.to_thread(os.open, part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        try:
            async for chunk in stream:
                written += len(chunk)
                if written > size:
                    raise refusal(400, f"the upload has more than the {size} bytes that were announced")
                await asyncio.to_thread(_write, descriptor, chunk)
                digest.update(chunk)
            await asyncio.to_thread(os.fsync, descriptor)
        finally:
            os.close(descriptor)
        if written != size or digest.hexdigest() != sha256:
            raise refusal(400, f"the upload is not the {size} bytes with SHA-256 {sha256} that were announced")
        await _place(mirror, record, part, sha256, size)
    finally:
        part.unlink(missing_ok=True)


async def check_room(mirror: Mirror, record: Published, size: int) -> None:
    """Refuses what is beyond the tenant's limit, before its bytes are sent.

    Raises:
        HTTPException: 413.
    """
    async with mirror.engine.connect() as connection:
        used = await published.usage(connection, record.tenant)
    if used + size > mirror.settings.tenant_bytes:
        raise over_limit(mirror, record)


def over_limit(mirror: Mirror, record: Published) -> HTTPException:
    """The caller's error beyond the limit."""
    text = (
        f"the repositories of tenant {record.tenant} may use {mirror.settings.tenant_bytes} bytes, and this is more: "
        "delete a repository, or ask the operator for more (repository_size)"
    )
    return refusal(413, text)


async def _place(mirror: Mirror, record: Published, part: Path, sha256: str, size: int) -> None:
    target = object_path(mirror.published, record.tenant, sha256)
    async with mirror.tenant_lock(record.tenant):
        try:
            async with mirror.engine.execution_options(isolation_level="READ COMMITTED").begin() as connection:
                await published.add_object(connection, record, sha256, size, mirror.settings.tenant_bytes)
                await asyncio.to_thread(_rename, part, target)
        except OverLimit as error:
            raise over_limit(mirror, record) from error


def _rename(part: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part.replace(target)


def _write(descriptor: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(descriptor, view) :]


def _part(mirror: Mirror) -> Path:
    # on the volume of its target, and no tenant's name
    directory = mirror.published / ".uploads"
    directory.mkdir(exist_ok=True)
    return directory / uuid.uuid4().hex
