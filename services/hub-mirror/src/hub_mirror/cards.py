"""Routes of the Hub's API that read: lists, cards, trees, branches, commits."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, HTTPException, Path, Request
from fastapi.responses import Response
from sqlalchemy import and_, func

from hub_mirror import published, shapes
from hub_mirror.answers import Question, plain
from hub_mirror.mirror import Mirror, TheMirror
from hub_mirror.names import (
    MAIN,
    InvalidName,
    Kind,
    Repository,
    checked_path,
    is_commit,
    quoted,
    segments,
    split_id,
    take_revision,
)
from hub_mirror.published import Commit, Published
from hub_mirror.readers import Reader, Who
from hub_mirror.refusals import (
    HUB_ERRORS,
    entry_not_found,
    refusal,
    repository_not_found,
    revision_not_found,
)
from hub_mirror.responses import bytes_response, json_response, needs_token, page_url, refused, unavailable
from hub_mirror.schema import repositories
from hub_mirror.upstream import Answer, UpstreamUnavailable
from strata_http import audit

WORDS = frozenset({"revision", "tree", "paths-info", "refs", "commits", "preupload", "commit", "settings"})
"""That follow a repository's id."""
MOST_LISTED = DEFAULT_LISTED = 1000
LONGEST_QUERY = 4096
LARGEST_BODY = 2**20
MOST_PATHS = 1000
OWN_CURSOR = "site:"
"""Begins the cursor of a page of tenants' repositories, which come before the upstream's."""
NO_FILTER = frozenset(
    ["search", "author", "sort", "direction", "limit", "full", "config", "cardData", "expand", "cursor", "fetch_config"]
)
"""Parameters of a list that repositories without tags can match."""

router = APIRouter(tags=["hub"])
OneKind = Annotated[Kind, Path(description="models or datasets.")]


@router.get(
    "/api/{kind}",
    summary="Repositories of the tenants and of the Hub",
    response_model=list[dict[str, Any]],
    responses=HUB_ERRORS.described({404: "There is no such kind.", 504: "The Hub does not respond."}),
)
async def list_repositories(request: Request, mirror: TheMirror, who: Who, kind: OneKind) -> Response:
    """Tenants' repositories first, then the Hub's; `Link` has the next page."""
    return await _list(request, mirror, who, kind)


@router.api_route("/api/models/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
@router.api_route("/api/datasets/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
async def read(request: Request, mirror: TheMirror, who: Who) -> Response:
    """A card, a tree, branches or commits."""
    repository, rest = api_target(request)
    query = _query(request)
    if mirror.is_tenants(repository):
        return await _read_published(mirror, who, repository, rest, dict(query))
    word, *more = rest or [""]
    path, revision, folder = repository.api_path, MAIN, ""
    if word in ("revision", "tree", "commits"):
        revision, more = take_revision(more)
        path += f"/{word}/{quoted(revision)}"
        if more and word == "tree":
            folder = checked_path("/".join(more).rstrip("/"))
            path += f"/{quoted(folder).replace('%2F', '/')}"
            more = []
    elif word == "refs":
        path += "/refs"
    elif word:
        raise refusal(404, f"this hub has no route {word} of a repository")
    if more:
        raise refusal(404, "there is nothing at this path")
    question = Question(path, query, immutable=is_commit(revision) and word != "commits")
    answer, fetched = await _ask(mirror, who, repository, question)
    if fetched and word in ("", "revision"):
        await mirror.files.learn(repository, revision, json.loads(answer.body))
    return bytes_response(answer.body, _next(who, question.path, answer, None))


def api_target(request: Request) -> tuple[Repository, list[str]]:
    """The repository of a path below /api/models or /api/datasets, and what follows.

    Raises:
        InvalidName: it names none.
    """
    _, kind, *rest = segments(request.scope["raw_path"])
    return split_id("datasets" if kind == "datasets" else "models", rest, WORDS)


async def paths_info(request: Request, mirror: Mirror, who: Reader, repository: Repository, revision: str) -> Response:
    """Of a commit, what the paths of the request are; for POST."""
    audit.skip(request)
    paths, expand = await _paths(request)
    for path in paths:
        checked_path(path.strip("/"))
    if mirror.is_tenants(repository):
        _, commit = await find_commit(mirror, who, repository, revision)
        return json_response(shapes.paths_info(commit, paths))
    body = json.dumps({"paths": paths, "expand": expand}).encode()
    path = f"{repository.api_path}/paths-info/{quoted(revision)}"
    question = Question(path, body=body, immutable=is_commit(revision))
    answer, _ = await _ask(mirror, who, repository, question)
    return bytes_response(answer.body)


async def find_published(mirror: Mirror, who: Reader, repository: Repository) -> Published:
    """A tenant's repository that the caller may read.

    Raises:
        HTTPException: 404, or 401 without a token.
    """
    async with mirror.engine.connect() as connection:
        record = await published.find(connection, repository)
    if record is None or (record.private and record.tenant not in who.tenants):
        raise repository_not_found(repository.id, anonymous=who.anonymous)
    return record


async def find_commit(mirror: Mirror, who: Reader, repository: Repository, revision: str) -> tuple[Published, Commit]:
    """A tenant's repository that the caller may read, and its commit of a revision.

    Raises:
        HTTPException: as find_published, or 404 for the revision.
    """
    record = await find_published(mirror, who, repository)
    async with mirror.engine.connect() as connection:
        commit = await published.commit_of(connection, record, revision)
    if commit is None:
        raise revision_not_found(revision)
    return record, commit


async def _read_published(
    mirror: Mirror, who: Reader, repository: Repository, rest: list[str], query: dict[str, str]
) -> Response:
    word, *more = rest or ["revision", MAIN]
    if word == "refs" and not more:
        return json_response(shapes.branches(await find_published(mirror, who, repository)))
    if word not in ("revision", "tree", "commits"):
        raise refusal(404, f"this hub has no route {word} of a repository")
    revision, more = take_revision(more)
    record, commit = await find_commit(mirror, who, repository, revision)
    if word == "tree":
        folder = checked_path("/".join(more)) if more else ""
        listed = shapes.tree(commit, folder, recursive=query.get("recursive", "").lower() in ("true", "1"))
        if listed is None:
            raise entry_not_found(folder, commit.sha)
        return json_response(listed)
    if more:
        raise refusal(404, "there is nothing at this path")
    if word == "commits":
        async with mirror.engine.connect() as connection:
            rows = await published.history(connection, record, DEFAULT_LISTED)
        return json_response([shapes.commit_entry(row) for row in rows])
    return json_response(shapes.card(record, commit))


async def _list(request: Request, mirror: Mirror, who: Reader, kind: Kind) -> Response:
    query = _query(request)
    values = dict(query)
    text = values.get("limit", str(DEFAULT_LISTED))
    limit = min(int(text), MOST_LISTED) if text.isdecimal() and len(text) < 10 else 0
    if limit < 1:
        raise refusal(400, f"limit must be a number from 1 to {MOST_LISTED}")
    cursor = values.get("cursor", "")
    own: list[Published] = []
    if not cursor or cursor.startswith(OWN_CURSOR):
        skipped = cursor.removeprefix(OWN_CURSOR)
        offset = int(skipped) if skipped.isdecimal() and len(skipped) < 10 else 0
        own = await _own(mirror, who, kind, values, limit, offset)
        query = tuple(pair for pair in query if pair[0] != "cursor")
        if len(own) == limit:
            following = (*query, ("cursor", f"{OWN_CURSOR}{offset + limit}"))
            return json_response(
                [shapes.card(record) for record in own], page_url(who.base_url, f"/api/{kind}", following)
            )
    cards = [shapes.card(record) for record in own]
    if values.get("author", "").lower() in mirror.settings.tenants:
        return json_response(cards)
    asked = (*(pair for pair in query if pair[0] != "limit"), ("limit", str(limit - len(own))))
    try:
        answer = await _ask_list(mirror, who, Question(f"/api/{kind}", asked))
    except UpstreamUnavailable as error:
        if mirror.upstream.offline:
            return json_response(cards)
        raise refusal(504, f"{error}, and this hub has no copy of the list", headers={"Retry-After": "30"}) from error
    rest = json.loads(answer.body)
    if not isinstance(rest, list):
        raise refusal(502, "the upstream's list is none")
    return json_response(cards + rest, _next(who, f"/api/{kind}", answer, limit))


async def _own(
    mirror: Mirror, who: Reader, kind: Kind, values: dict[str, str], limit: int, offset: int
) -> list[Published]:
    """Tenants' repositories that the list's parameters match."""
    if set(values) - NO_FILTER:
        return []
    conditions = [published.readable(who.tenants), repositories.c.kind == kind]
    if author := values.get("author"):
        conditions.append(repositories.c.tenant == author.lower())
    if search := values.get("search"):
        whole = func.lower(repositories.c.tenant + "/" + repositories.c.name)
        conditions.append(func.strpos(whole, search.lower()) > 0)
    async with mirror.engine.connect() as connection:
        return await published.search(connection, and_(*conditions), limit, offset)


async def _ask_list(mirror: Mirror, who: Reader, question: Question) -> Answer:
    if who.hub_token is not None:
        # it may show the caller's private repositories
        mirror.counts.answers.labels("passed").inc()
        answer = plain(await mirror.upstream.ask(question.path, question.query, token=who.hub_token))
    else:
        answer, _ = await mirror.answers.ask(question)
    if answer.status != 200:
        raise refused(answer, "the list")
    return answer


async def _ask(mirror: Mirror, who: Reader, repository: Repository, question: Question) -> tuple[Answer, bool]:
    """What anyone gets, else what the caller's token of the Hub gets; whether the former was fetched now.

    Raises:
        HTTPException: the upstream refuses or does not respond.
    """
    try:
        answer, fetched = await mirror.answers.ask(question)
        if answer.status != 200 and who.hub_token is not None and needs_token(answer):
            fetched = False
            mirror.counts.answers.labels("passed").inc()
            asked = mirror.upstream.ask(question.path, question.query, body=question.body, token=who.hub_token)
            answer = plain(await asked)
    except UpstreamUnavailable as error:
        raise await unavailable(mirror, repository, error) from error
    if answer.status != 200:
        raise _refused(answer, repository)
    return answer, fetched


def _refused(answer: Answer, repository: Repository) -> HTTPException:
    return refused(answer, f"repository {repository.id}")


def _next(who: Reader, path: str, answer: Answer, limit: int | None) -> str:
    """URL of the next page here, of the upstream's.

    Args:
        who: the caller.
        path: of the pages.
        answer: of the upstream.
        limit: of the caller; None: as the upstream has it.
    """
    if not answer.link:
        return ""
    query = parse_qsl(urlsplit(answer.link).query, keep_blank_values=True)
    if limit is not None:
        query = [*(pair for pair in query if pair[0] != "limit"), ("limit", str(limit))]
    return page_url(who.base_url, path, query)


def _query(request: Request) -> tuple[tuple[str, str], ...]:
    if len(request.scope["query_string"]) > LONGEST_QUERY:
        raise InvalidName(f"the query has more than {LONGEST_QUERY} characters")
    query = tuple(request.query_params.multi_items())
    if not all(text.isprintable() for pair in query for text in pair):
        raise InvalidName("the query has control characters")
    return query


async def _paths(request: Request) -> tuple[list[str], bool]:
    """Paths and `expand` of the request, as JSON or a form."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise refusal(413, f"the request has more than {LARGEST_BODY} bytes")
    try:
        if "json" in request.headers.get("content-type", ""):
            value = json.loads(body)
            paths, expand = value["paths"], value.get("expand", False)
        else:
            form = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=2 * MOST_PATHS)
            paths = [text for key, text in form if key == "paths"]
            expand = dict(form).get("expand", "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise refusal(400, "the body must hold paths, as JSON or a form") from error
    paths = [paths] if isinstance(paths, str) else paths
    if not isinstance(paths, list) or len(paths) > MOST_PATHS or not all(isinstance(path, str) for path in paths):
        raise refusal(400, f"paths must be at most {MOST_PATHS} texts")
    return paths, expand in (True, "True", "true", "1")
