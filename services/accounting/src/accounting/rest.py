"""Measurements, pods and models over HTTP, as PostgREST has it: `POST /measurement`, `GET /own_pod?kind=eq.pod`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import anyio.to_thread
import psycopg
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from accounting import measurements, reading
from accounting.collector import log
from accounting.reading import MEASUREMENT, TABLES, Problem
from accounting.settings import ServeSettings
from strata_http.tokens import Caller, InvalidToken, IssuerUnavailable, TokenVerifier

CONNECTIONS = 8
"""To the database at once; further requests wait."""
BODY_SECONDS = 30


def create_app(settings: ServeSettings) -> Starlette:
    """The application of `serve`."""
    verifier, limiter = TokenVerifier(settings), anyio.CapacityLimiter(CONNECTIONS)

    async def table(request: Request) -> Response:
        run = partial(anyio.to_thread.run_sync, limiter=limiter)
        caller: Caller = await run(verifier.verify, _token(request))
        request.state.username = caller.username
        name = request.path_params["table"]
        if (asked := TABLES.get(name)) is None:
            raise Problem(404, "PGRST205", f"{name[:80]}: there is no such table", f"/{', /'.join(TABLES)}")
        if request.method == "POST":
            if asked is not MEASUREMENT:
                raise Problem(405, "PGRST117", f"{name}: no rows can be added", f"POST /{MEASUREMENT.name}")
            body = await _body(request, settings.maximum_bytes)
            rows = await run(measurements.read, body, settings.maximum_rows)
            await run(measurements.insert, settings, caller, rows)
            return Response(status_code=201)
        parameters = request.query_params.multi_items()
        content = await run(reading.select, settings, caller, asked, parameters, settings.maximum_rows)
        return Response(content, media_type="application/json")

    async def logged(request: Request) -> Response:
        response = await _answer(table, request)
        who = getattr(request.state, "username", None)
        log("info", "answered", method=request.method, status=response.status_code, username=who)
        return response

    async def alive(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def refused(_: Request, error: Exception) -> Response:
        status, message = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "failed")
        return _problem(Problem(status, "PGRST100", message, f"GET /{', /'.join(TABLES)}; POST /{MEASUREMENT.name}"))

    routes = [Route("/healthz", alive), Route("/{table}", logged, methods=["GET", "POST"])]
    return Starlette(routes=routes, exception_handlers={HTTPException: refused})


def _token(request: Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Problem(401, "PGRST302", "Authorization: no token", "Authorization: Bearer …, of the site's issuer")
    return token.strip()


async def _body(request: Request, maximum: int) -> bytes:
    body = b""
    with anyio.fail_after(BODY_SECONDS):
        async for chunk in request.stream():
            body += chunk
            if len(body) > maximum:
                raise Problem(413, "PGRST102", f"body: has more than {maximum} bytes", "send fewer rows in a request")
    return body


async def _answer(handle: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
    """The answer, or what went wrong."""
    try:
        return await handle(request)
    except Problem as problem:
        return _problem(problem)
    except InvalidToken as error:
        return _problem(Problem(401, "PGRST301", str(error), "log in again"))
    except IssuerUnavailable as error:
        return _problem(Problem(503, "PGRST300", str(error), "try again"))
    except psycopg.errors.InsufficientPrivilege:
        hint = "the tenants in the token's groups; changes of them need a new login"
        return _problem(Problem(403, "42501", "tenant: is not one of yours", hint))
    except psycopg.OperationalError as error:
        log("error", str(error).strip())
        return _problem(Problem(503, error.sqlstate or "PGRST000", "the database does not respond", "try again"))
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        message = error.diag.message_primary or str(error)
        return _problem(Problem(400, error.sqlstate or "22000", message))
    except (TimeoutError, ClientDisconnect):
        return _problem(Problem(408, "PGRST102", f"body: did not arrive in {BODY_SECONDS} s", "send fewer rows"))


def _problem(problem: Problem) -> Response:
    content = {"code": problem.code, "message": problem.message, "details": None, "hint": problem.hint}
    headers = {}
    if problem.status == 401:
        invalid = ', error="invalid_token"' if problem.code == "PGRST301" else ""
        headers["WWW-Authenticate"] = f'Bearer realm="measurements"{invalid}'
    elif problem.status == 503:
        headers["Retry-After"] = "10"
    return JSONResponse(content, problem.status, headers)
