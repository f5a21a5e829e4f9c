"""The models of the site, and who may ask which."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from fastapi import HTTPException

from inference.bodies import printable
from inference.runtime import Runtime
from strata_http.tokens import Caller


@dataclass(frozen=True)
class Chosen:
    """A model that a caller may ask.

    Args:
        runtime: the model.
        tenant: for which it is counted: the first of the caller's that may.
    """

    runtime: Runtime
    tenant: str


class Models:
    """All of them.

    Args:
        runtimes: in the order of their lists.
        check_seconds: between two looks at each.
    """

    def __init__(self, runtimes: Iterable[Runtime], check_seconds: float) -> None:
        self._by_id = {runtime.model.id: runtime for runtime in runtimes}
        self._check_seconds = check_seconds

    def of(self, caller: Caller) -> list[Runtime]:
        """Those that a caller may ask."""
        return [runtime for runtime in self._by_id.values() if _tenant(runtime, caller)]

    def find(self, caller: Caller, model_id: str) -> Chosen:
        """One of them.

        Raises:
            HTTPException: 404, also where it is others'.
        """
        runtime = self._by_id.get(model_id)
        tenant = runtime and _tenant(runtime, caller)
        if runtime is None or not tenant:
            raise HTTPException(404, f"there is no model {printable(model_id)} for you; GET /v1/models lists yours")
        return Chosen(runtime, tenant)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Until the end of the block, models that are idle are stopped."""
        tasks = [asyncio.create_task(self._keep(runtime)) for runtime in self._by_id.values()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task

    async def _keep(self, runtime: Runtime) -> None:
        while True:
            await runtime.check()
            await asyncio.sleep(self._check_seconds)


def _tenant(runtime: Runtime, caller: Caller) -> str | None:
    return next((tenant for tenant in caller.tenants if tenant in runtime.model.tenants), None)
