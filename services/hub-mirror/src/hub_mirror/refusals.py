"""Errors in the Hub's form: `{"error": …}`, and headers that huggingface_hub makes its exceptions from."""

from __future__ import annotations

from fastapi import HTTPException, Request
from pydantic import BaseModel, Field

from strata_http.errors import ErrorFormat, InvalidValue

CODE, MESSAGE = "X-Error-Code", "X-Error-Message"
ENTRY_NOT_FOUND = "EntryNotFound"
"""X-Error-Code for a file that a commit does not have."""
_INVALID_CREDENTIALS = "Invalid credentials in Authorization header"
"""The Hub's own text, by which huggingface_hub distinguishes a bad token from a missing repository."""
_CHALLENGE = 'Bearer realm="hub-mirror"'


class HubError(BaseModel):
    """What every error response holds."""

    error: str = Field(description="What happened, and what to do about it.")
    request_id: str = Field(description="Also in the service's log.")


def _body(request: Request, _status: int, detail: str, errors: list[InvalidValue]) -> HubError:
    values = "; ".join(f"{error.where}: {error.message}" for error in errors)
    text = f"{detail}: {values}" if values else detail
    return HubError(error=text, request_id=str(getattr(request.state, "request_id", "")))


HUB_ERRORS = ErrorFormat(HubError, "application/json", 400, _body)


def refusal(status: int, text: str, code: str = "", headers: dict[str, str] | None = None) -> HTTPException:
    """An error for the caller.

    Args:
        status: of the response.
        text: what is wrong, and how to fix it.
        code: X-Error-Code of the Hub: RepoNotFound, RevisionNotFound, EntryNotFound, GatedRepo; empty: none.
        headers: more of the response.
    """
    shown = {MESSAGE: text.encode("latin-1", "replace").decode("latin-1")} if text.isprintable() else {}
    return HTTPException(status, text, {**shown, **({CODE: code} if code else {}), **(headers or {})})


def unauthorized(text: str, *, invalid: bool = False) -> HTTPException:
    """For a request that needs a token of the site, or whose token does not hold.

    Args:
        text: what is wrong, and how to fix it.
        invalid: whether there is a token, which does not hold.
    """
    challenge = f'{_CHALLENGE}, error="invalid_token", error_description="{text}"' if invalid else _CHALLENGE
    return refusal(401, text, headers={"WWW-Authenticate": challenge, MESSAGE: _INVALID_CREDENTIALS})


def repository_not_found(repository: str, *, anonymous: bool) -> HTTPException:
    """For one that is not there or hidden from the caller, as the Hub has it: 401 without a token."""
    text = f"there is no repository {repository}, or it is private and your token does not open it"
    return refusal(401 if anonymous else 404, text, "RepoNotFound")


def entry_not_found(path: str, commit: str) -> HTTPException:
    """For a file that the commit does not have."""
    return refusal(404, f"commit {commit} has no file {path}", ENTRY_NOT_FOUND, {"X-Repo-Commit": commit})


def revision_not_found(revision: str) -> HTTPException:
    """For a branch, tag or commit that the repository does not have."""
    return refusal(404, f"the repository has no revision {revision}", "RevisionNotFound")
