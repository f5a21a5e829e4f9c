"""What OpenStack's APIs refuse, found in the Pulumi provider's messages, and what to do about it."""

from __future__ import annotations

import json
import re

from strata.models.site import Site

_ANSWER = re.compile(
    r"Expected HTTP response code \[[\d ]*\] when accessing \[(?P<request>\S+ [^\]]+)\], "
    r"but got (?P<status>\d+) instead: ?(?P<body>.*)",
    re.DOTALL,
)
_REFUSED_CREDENTIALS = re.compile(r"Unable to re-authenticate|\[POST \S*/auth/tokens\], but got 40[13] instead")
CREDENTIALS = "keystone refuses the credentials"
QUOTA = "quota exceeded"
"""What nova and neutron have in their refusals, in upper and lower case."""


def answer(message: str) -> str:
    """A provider's message with the service's own words instead of the request and the response that it quotes."""
    match = _ANSWER.search(message)
    if match is None:
        return message
    if _REFUSED_CREDENTIALS.search(message):
        *_, last = re.finditer(r"instead: ?(\{.*?\}\}|\S+)", message)
        return f"{CREDENTIALS}: {_words(last[1])} (HTTP 401)"
    before = message[: match.start()].rstrip(": ")
    said = f"{_words(match['body'])} (HTTP {match['status']})"
    return f"{before}: {said}" if before else said


def _words(body: str) -> str:
    """The message of a response: nova, keystone and neutron have it one level down, under a name of their own."""
    try:
        content, _ = json.JSONDecoder().raw_decode(body.strip())
    except ValueError:
        return body.strip()
    inner = next(iter(content.values()), None) if isinstance(content, dict) else None
    if isinstance(inner, dict) and inner.get("message"):
        return str(inner["message"]).strip()
    return str(inner if isinstance(inner, str) else body).strip()


def remedy(text: str, site: Site, entry: str, again: str) -> str | None:
    """What to do about a refusal; None where the text has none that is known.

    Args:
        text: of the failure.
        site: the model.
        entry: of clouds.yaml that the site uses.
        again: command that resumes.
    """
    if CREDENTIALS in text:
        return (
            f"correct the auth section of the entry {entry} of clouds.yaml; an application credential may have expired "
            f"(openstack --os-cloud {entry} token issue); then run `{again}` again: it resumes"
        )
    if QUOTA in text.lower() and site.cloud is not None:
        project = site.cloud.project
        raised = (
            f"have the cloud's administrator raise the quota of the project {project.name}"
            if project.existing
            else "raise cloud.project.quota"
        )
        return f"{raised}, or delete what the project does not need; then run `{again}` again: it resumes"
    return None
