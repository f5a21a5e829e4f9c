"""Which bytes a file of an upstream's repository has, by commit; what is known of a commit never changes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from hub_mirror.answers import Answers, Question
from hub_mirror.names import Repository, is_commit
from hub_mirror.refusals import ENTRY_NOT_FOUND
from hub_mirror.schema import entries, listings, refs
from hub_mirror.transfers import Open
from hub_mirror.upstream import Answer, FileHead, FileStream, Upstream, UpstreamUnavailable

MOST_PATHS = 20_000
"""Of a commit's list of files that is kept."""
MOST_MISSING = 100_000
"""Files that commits do not have; beyond them, the oldest are forgotten: anyone may ask for any name."""


class Files:
    """Files that anyone may read at the upstream.

    Args:
        engine: of the database.
        upstream: is asked without a token.
        answers: that keep its refusals.
        fresh: for how long a branch is not looked up again.
    """

    def __init__(self, engine: AsyncEngine, upstream: Upstream, answers: Answers, fresh: timedelta) -> None:
        self._engine, self._upstream, self._answers, self._fresh = engine, upstream, answers, fresh

    async def find(self, repository: Repository, revision: str, path: str) -> FileHead | Answer:
        """Commit, ETag and size of a file, or the upstream's refusal.

        Raises:
            UpstreamUnavailable: it does not respond, and the file is not known.
        """
        fixed = is_commit(revision)
        commit, fresh = (revision, True) if fixed else await self._commit(repository, revision)
        if commit is not None and fresh and (known := await self._known(repository, commit, path)) is not None:
            return known
        question = Question(f"{repository.web_path}/resolve/{revision}/{path}")
        if (refused := await self._answers.refusal(question)) is not None:
            return refused
        try:
            answer = await self._upstream.head(repository, revision, path)
        except UpstreamUnavailable:
            last = await self._known(repository, commit, path) if commit is not None else None
            if last is None:
                raise
            return last
        if isinstance(answer, FileHead):
            await self._keep(repository, revision, answer.commit, path, answer)
        elif answer.error_code == ENTRY_NOT_FOUND and answer.commit and is_commit(answer.commit):
            await self._keep(repository, revision, answer.commit, path, None)
        else:
            await self._answers.keep(question.key, answer)
        return answer

    def source(self, repository: Repository, commit: str, path: str) -> Open:
        """Opens the upstream's file at a range."""

        def opened(byte_range: str) -> AbstractAsyncContextManager[FileStream]:
            return self._upstream.open(repository, commit, path, byte_range)

        return opened

    async def learn(self, repository: Repository, revision: str, card: Any) -> None:
        """Keeps the commit and the list of files of a card that the upstream gives to anyone."""
        commit = card.get("sha") if isinstance(card, dict) else None
        if not isinstance(commit, str) or not is_commit(commit):
            return
        await self._keep_ref(repository, revision, commit)
        siblings = card.get("siblings")
        paths = [sibling.get("rfilename") for sibling in siblings] if isinstance(siblings, list) else []
        if paths and len(paths) <= MOST_PATHS and all(isinstance(path, str) for path in paths):
            statement = insert(listings).values(kind=repository.kind, id=repository.id, commit=commit, paths=paths)
            await self._execute([statement.on_conflict_do_nothing()])

    async def knows(self, repository: Repository) -> bool:
        """Whether a branch of the repository was ever looked up."""
        query = select(refs.c.commit).where(refs.c.kind == repository.kind, refs.c.id == repository.id).limit(1)
        async with self._engine.connect() as connection:
            return (await connection.execute(query)).first() is not None

    async def tidy(self) -> None:
        """Forgets the oldest files that commits do not have, beyond the most that are kept."""
        missing = entries.c.etag.is_(None)
        newest = select(entries.c.seen_at).where(missing).order_by(entries.c.seen_at.desc())
        oldest = newest.offset(MOST_MISSING).limit(1).scalar_subquery()
        await self._execute([delete(entries).where(missing, entries.c.seen_at <= oldest)])

    async def _commit(self, repository: Repository, revision: str) -> tuple[str | None, bool]:
        """That a branch was at when it was last looked up, and whether that is fresh."""
        age = func.now() - refs.c.checked_at
        query = select(refs.c.commit, age).where(
            refs.c.kind == repository.kind, refs.c.id == repository.id, refs.c.revision == revision
        )
        async with self._engine.connect() as connection:
            row = (await connection.execute(query)).first()
        return (None, False) if row is None else (row[0], row[1] < self._fresh)

    async def _known(self, repository: Repository, commit: str, path: str) -> FileHead | Answer | None:
        where = (entries.c.kind == repository.kind, entries.c.id == repository.id, entries.c.commit == commit)
        listed = select(listings.c.paths.any(path)).where(
            listings.c.kind == repository.kind, listings.c.id == repository.id, listings.c.commit == commit
        )
        async with self._engine.connect() as connection:
            query = select(entries).where(*where, entries.c.path == path)
            row = (await connection.execute(query)).mappings().one_or_none()
            missing = row is not None and row["etag"] is None
            if row is None:
                missing = (await connection.execute(listed)).scalar_one_or_none() is False
        if missing:
            return Answer(404, error_code=ENTRY_NOT_FOUND, commit=commit)
        return None if row is None else FileHead(commit, row["etag"], row["size"], row["large"])

    async def _keep(self, repository: Repository, revision: str, commit: str, path: str, head: FileHead | None) -> None:
        values: dict[str, Any] = {"etag": None, "size": None, "large": None}
        if head is not None:
            values = {"etag": head.etag, "size": head.size, "large": head.large}
        statement = insert(entries).values(kind=repository.kind, id=repository.id, commit=commit, path=path, **values)
        await self._execute([statement.on_conflict_do_nothing()])
        await self._keep_ref(repository, revision, commit)

    async def _keep_ref(self, repository: Repository, revision: str, commit: str) -> None:
        if is_commit(revision):
            return
        values = {"commit": commit, "checked_at": func.now()}
        statement = insert(refs).values(kind=repository.kind, id=repository.id, revision=revision, **values)
        await self._execute([statement.on_conflict_do_update(index_elements=["kind", "id", "revision"], set_=values)])

    async def _execute(self, statements: Iterable[Any]) -> None:
        async with self._engine.connect() as connection:
            for statement in statements:
                await connection.execute(statement)
