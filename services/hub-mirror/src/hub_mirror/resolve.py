"""Files: `/<id>/resolve/<revision>/<path>`, `/datasets/<id>/resolve/…`."""

from __future__ import annotations

from contextlib import AsyncExitStack

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import Response

from hub_mirror.blobs import blob_key
from hub_mirror.cards import find_commit
from hub_mirror.mirror import Mirror, TheMirror
from hub_mirror.names import Repository, checked_path, segments, split_id, take_revision
from hub_mirror.published import object_path
from hub_mirror.readers import Reader, Who
from hub_mirror.reading import StoredFile
from hub_mirror.refusals import entry_not_found, refusal
from hub_mirror.responses import (
    PassedResponse,
    file_headers,
    file_response,
    head_response,
    needs_token,
    refused,
    unavailable,
)
from hub_mirror.transfers import BrokenTransfer, Open
from hub_mirror.upstream import Answer, FileHead, UpstreamUnavailable

WORDS = frozenset({"resolve"})
log = structlog.get_logger(__name__)

router = APIRouter(tags=["files"])


@router.api_route("/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
async def resolve(request: Request, mirror: TheMirror, who: Who) -> Response:
    """A file's bytes; HEAD: its commit, ETag and size."""
    repository, revision, path = _target(request)
    if mirror.is_tenants(repository):
        return await _published(request, mirror, who, repository, revision, path)
    try:
        answer = await mirror.files.find(repository, revision, path)
        if isinstance(answer, Answer) and who.hub_token is not None and needs_token(answer):
            return await _private(request, mirror, who.hub_token, repository, revision, path)
        if isinstance(answer, Answer):
            raise refused(answer, f"file {path} of {repository.id}")
        return await _public(request, mirror, repository, path, answer)
    except UpstreamUnavailable as error:
        raise await unavailable(mirror, repository, error) from error


def _target(request: Request) -> tuple[Repository, str, str]:
    parts = segments(request.scope["raw_path"])
    nothing = refusal(404, "there is nothing at this path: files are at /<repository>/resolve/<revision>/<path>")
    datasets = parts[0] == "datasets"
    if "resolve" not in parts[1:]:
        raise nothing
    repository, rest = split_id("datasets" if datasets else "models", parts[1:] if datasets else parts, WORDS)
    if rest[:1] != ["resolve"]:
        raise nothing
    revision, rest = take_revision(rest[1:])
    return repository, revision, checked_path("/".join(rest))


async def _published(
    request: Request, mirror: Mirror, who: Reader, repository: Repository, revision: str, path: str
) -> Response:
    record, commit = await find_commit(mirror, who, repository, revision)
    file = commit.files.get(path)
    if file is None:
        raise entry_not_found(path, commit.sha)
    headers = file_headers(commit.sha, file.etag, file.size, large=file.large)
    if request.method == "HEAD":
        return head_response(headers, file.size)
    try:
        content = StoredFile(object_path(mirror.published, record.tenant, file.sha256))
    except FileNotFoundError:
        log.error("published file is gone", repository=repository.id, path=path, sha256=file.sha256)
        raise refusal(500, f"the hub has lost the bytes of {path}: publish the file again") from None
    mirror.counts.files.labels("published").inc()
    return await file_response(request, content, headers, mirror.counts.served.labels("published").inc)


async def _public(request: Request, mirror: Mirror, repository: Repository, path: str, head: FileHead) -> Response:
    """Of a repository that anyone may read: from the disk, or from the upstream and to the disk."""
    headers = file_headers(head.commit, head.etag, head.size, large=head.large)
    if request.method == "HEAD":
        return head_response(headers, head.size)
    source = mirror.files.source(repository, head.commit, path)
    key = blob_key(head.etag, repository.kind, repository.id, head.commit, path)
    opened = mirror.blobs.open(key, head.etag, head.size, source)
    if opened is None:
        return await _pass(request, mirror, source)
    content, hit = opened
    try:
        await content.begin()
    except BaseException as error:
        await content.close()
        if isinstance(error, BrokenTransfer):
            raise UpstreamUnavailable(str(error)) from error
        raise
    result = "hit" if hit else "miss"
    mirror.counts.files.labels(result).inc()
    return await file_response(request, content, headers, mirror.counts.served.labels(result).inc)


async def _private(
    request: Request, mirror: Mirror, token: str, repository: Repository, revision: str, path: str
) -> Response:
    """What the caller's token of the Hub alone opens: it is neither stored nor served to others."""
    if request.method == "HEAD":
        answer = await mirror.upstream.head(repository, revision, path, token)
        if isinstance(answer, Answer):
            raise refused(answer, f"file {path} of {repository.id}")
        return head_response(file_headers(answer.commit, answer.etag, answer.size, large=answer.large), answer.size)
    return await _pass(
        request, mirror, lambda byte_range: mirror.upstream.open(repository, revision, path, byte_range, token)
    )


async def _pass(request: Request, mirror: Mirror, source: Open) -> Response:
    """The upstream's bytes, which are not stored."""
    async with AsyncExitStack() as stack:
        stream = await stack.enter_async_context(source(_one_range(request)))
        if stream.answer is not None:
            raise refused(stream.answer, request.url.path)
        mirror.counts.files.labels("passed").inc()

        def sent(count: int) -> None:
            mirror.counts.served.labels("passed").inc(count)
            mirror.counts.fetched.inc(count)

        return PassedResponse(stream, stack.pop_all(), sent)


def _one_range(request: Request) -> str:
    """The request's range in one form; anything else requests the whole file."""
    unit, equals, value = request.headers.get("range", "").partition("=")
    first, dash, last = value.strip().partition("-")
    numbers = all(bound.isascii() and bound.isdecimal() and len(bound) < 19 for bound in (first, last) if bound)
    if unit.strip() != "bytes" or not equals or not dash or not (first or last) or not numbers:
        return ""
    return f"bytes={first}-{last}"
