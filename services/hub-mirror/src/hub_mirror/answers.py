"""Lists, cards, trees and branches of the upstream: cached for all, if the upstream gives them to anyone."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from hub_mirror.counts import Counts
from hub_mirror.schema import answers
from hub_mirror.upstream import Answer, Upstream, UpstreamUnavailable

KEPT_BYTES = 2**30
"""Of all answers; beyond them, the oldest leave."""
ROW_BYTES = 500
"""Counted for each, beside its body."""
REMEMBERED = frozenset({401, 403, 404})
"""Refusals that are not asked for again for a while."""


@dataclass(frozen=True)
class Question:
    """A request to the upstream that changes nothing.

    Args:
        path: below the upstream's URL.
        query: of the URL.
        body: JSON to POST; None: a GET.
        immutable: whether the answer is about a commit, and never changes.
    """

    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    immutable: bool = False

    @property
    def key(self) -> str:
        """Of its answer."""
        return hashlib.sha256(
            json.dumps([self.path, sorted(self.query), (self.body or b"").hex()]).encode()
        ).hexdigest()


class Answers:
    """The answers that anyone gets.

    Args:
        engine: of the database.
        upstream: is asked.
        counts: metrics.
        fresh: for how long an answer holds that may change.
        refused: for how long a refusal holds.
    """

    def __init__(
        self, engine: AsyncEngine, upstream: Upstream, counts: Counts, fresh: timedelta, refused: timedelta
    ) -> None:
        self._engine, self._upstream, self._counts = engine, upstream, counts
        self._fresh, self._refused = fresh, refused
        self._running: dict[str, asyncio.Lock] = {}

    async def ask(self, question: Question) -> tuple[Answer, bool]:
        """The answer, fresh or the last one while the upstream does not respond; whether the upstream gave it now.

        Raises:
            UpstreamUnavailable: it does not, and there is no last one.
        """
        key = question.key
        lock = self._running.setdefault(key, asyncio.Lock())
        try:
            async with lock:  # equal questions at once are asked once
                known = await self._known(key)
                if known is not None and (known[1] or (question.immutable and known[0].status == 200)):
                    self._counts.answers.labels("hit").inc()
                    return known[0], False
                try:
                    answer = plain(await self._upstream.ask(question.path, question.query, body=question.body))
                except UpstreamUnavailable:
                    if known is None:
                        raise
                    self._counts.answers.labels("stale").inc()
                    return known[0], False
                self._counts.answers.labels("miss").inc()
                await self.keep(key, answer)
                return answer, True
        finally:
            if not lock.locked():
                self._running.pop(key, None)

    async def refusal(self, question: Question) -> Answer | None:
        """A fresh refusal that is kept; None: there is none."""
        known = await self._known(question.key)
        return known[0] if known is not None and known[1] else None

    async def keep(self, key: str, answer: Answer) -> None:
        """Stores an answer for all, unless it is a refusal that may pass at once."""
        if answer.status != 200 and answer.status not in REMEMBERED:
            return
        values = {
            "status": answer.status,
            "body": answer.body,
            "link": answer.link,
            "error_code": answer.error_code,
            "error_message": answer.error_message,
            "fetched_at": func.now(),
        }
        statement = insert(answers).values(key=key, **values)
        async with self._engine.connect() as connection:
            await connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_=values))

    async def tidy(self) -> None:
        """Deletes the oldest beyond the most that are kept."""
        newer = func.sum(func.length(answers.c.body) + ROW_BYTES).over(order_by=answers.c.fetched_at.desc())
        sized = select(answers.c.key, newer.label("newer")).subquery()
        old = select(sized.c.key).where(sized.c.newer > KEPT_BYTES)
        async with self._engine.connect() as connection:
            await connection.execute(delete(answers).where(answers.c.key.in_(old)))

    async def _known(self, key: str) -> tuple[Answer, bool] | None:
        """The last answer, and whether it is fresh."""
        age = (func.now() - answers.c.fetched_at).label("age")
        async with self._engine.connect() as connection:
            row = (await connection.execute(select(answers, age).where(answers.c.key == key))).mappings().one_or_none()
        if row is None:
            return None
        answer = Answer(row["status"], row["body"], row["link"], row["error_code"], row["error_message"])
        return answer, row["age"] < (self._fresh if answer.status == 200 else self._refused)


def plain(answer: Answer) -> Answer:
    """Without hashes of Xet, so that clients download by HTTP, which a cache can serve.

    Raises:
        UpstreamUnavailable: the body is not JSON.
    """
    if answer.status != 200:
        return answer
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise UpstreamUnavailable("the upstream's answer is not JSON") from error
    return replace(answer, body=json.dumps(_without_xet(value), separators=(",", ":")).encode())


def _without_xet(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_xet(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_xet(item) for key, item in value.items() if key not in ("xetHash", "xetEnabled")}
    return value
