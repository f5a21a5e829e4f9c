"""Queries of Prometheus, by its HTTP API."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime
from typing import Literal, TypeVar

from pydantic import BaseModel

# it is in the cluster, or named by the site
_WITHOUT_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class NoAnswer(Exception):
    """Prometheus does not respond, or refuses; the message gives the reason."""


class Series(BaseModel):
    """One series of an answer.

    Args:
        metric: its labels.
        value: when, in seconds since 1970, and what.
    """

    metric: dict[str, str]
    value: tuple[float, float]


class Samples(BaseModel):
    """The stored samples of one series.

    Args:
        metric: its labels.
        values: when, in seconds since 1970, and what, in the order of time.
    """

    metric: dict[str, str]
    values: list[tuple[float, float]]


class _Vector(BaseModel):
    resultType: Literal["vector"]
    result: list[Series]


class _Matrix(BaseModel):
    resultType: Literal["matrix"]
    result: list[Samples]


class _VectorAnswer(BaseModel):
    status: Literal["success"]
    data: _Vector


class _MatrixAnswer(BaseModel):
    status: Literal["success"]
    data: _Matrix


AnyAnswer = TypeVar("AnyAnswer", _VectorAnswer, _MatrixAnswer)


class _Refusal(BaseModel):
    error: str


def quoted(value: str) -> str:
    """A label's value as PromQL has it, with its quotes."""
    # of what JSON escapes, PromQL reads all but a pair of surrogates
    return json.dumps(value, ensure_ascii=False)


def query(url: str, expression: str, *, seconds: float, at: datetime | None = None) -> list[Series]:
    """The value of an expression, an instant vector.

    Args:
        url: of Prometheus, without `/api`.
        expression: in PromQL.
        seconds: in which Prometheus evaluates it, and how long each step of the transfer waits.
        at: for when; now where it is None.

    Raises:
        NoAnswer.
    """
    return _ask(_VectorAnswer, url, expression, seconds, at).data.result


def samples(url: str, selector: str, *, seconds: float, at: datetime | None = None) -> list[Samples]:
    """The samples that Prometheus stores, as they were scraped.

    Args:
        url: of Prometheus, without `/api`.
        selector: in PromQL, with a range: `requests_total[1h]`; up to Prometheus 2, both ends belong to it.
        seconds: as of `query`.
        at: end of the range; now where it is None.

    Raises:
        NoAnswer.
    """
    return _ask(_MatrixAnswer, url, selector, seconds, at).data.result


def _ask(kind: type[AnyAnswer], url: str, expression: str, seconds: float, at: datetime | None) -> AnyAnswer:
    fields = {"query": expression, "timeout": f"{seconds:g}s"}
    if at is not None:
        fields["time"] = str(at.timestamp())
    try:
        address = f"{url}/api/v1/query?{urllib.parse.urlencode(fields)}"
        with _WITHOUT_PROXY.open(address, timeout=seconds) as response:
            return kind.model_validate_json(response.read())
    except urllib.error.HTTPError as error:
        with error:
            raise NoAnswer(f"Prometheus {url}: {_reason(error)}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NoAnswer(f"Prometheus {url}: {str(error) or type(error).__name__}") from None


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return _Refusal.model_validate_json(error.read()).error
    except (OSError, ValueError, http.client.HTTPException):
        return str(error)
