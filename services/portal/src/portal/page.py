"""The page."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from html import escape
from pathlib import Path
from string import Template
from typing import Any

State = tuple[str, str]
"""For the style sheet, and for readers."""


def render(page: dict[str, Any], states: Iterable[State], checked: int) -> str:
    """The page as HTML.

    Args:
        page: texts and services, as the chart's values have them.
        states: of the services that have a host, in their order.
        checked: when, in seconds since 1970; 0: never.
    """
    known = iter(states)
    cards = "".join(_card(service, next(known) if "host" in service else None) for service in page["services"])
    when = f"{datetime.datetime.fromtimestamp(checked, datetime.UTC):%H:%M} UTC" if checked else "not yet"
    template = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(page["title"]),
        introduction=escape(page["introduction"]),
        services=cards or "<p>This site has no services yet.</p>",
        checked=when,
        account=_account(page),
        guide=f' <a href="{escape(page["guide"])}">Read the guide for new users.</a>' if page["guide"] else "",
        contact=_contact(page["contact"]),
    )


def _card(service: dict[str, str], state: State | None) -> str:
    title, url, command, guide = (escape(service.get(key, "")) for key in ("title", "url", "command", "guide"))
    parts = [
        f'<h3><a href="{url}">{title}</a></h3>' if url else f"<h3>{title}</h3>",
        f'<p class="state" data-state="{state[0]}">{escape(state[1])}</p>' if state else "",
        f"<p>{escape(service['summary'])}</p>",
        f"<p><code>{command}</code></p>" if command else "",
        f'<a class="guide" href="{guide}">Guide: {title}</a>' if guide else "",
    ]
    return f'<li class="card">{"".join(parts)}</li>\n'


def _account(page: dict[str, Any]) -> str:
    if page["invited"]:
        return (
            "Ask the head of your project, or the contact below, for an account. You get a user name and a password "
            "for the first login, at which you choose your own."
        )
    return "Log in with the account of your organization. If you are refused, ask to be added to a project."


def _contact(contact: str) -> str:
    if not contact:
        return "Ask the operators of this site."
    target = contact if contact.startswith("https://") else f"mailto:{contact}"
    return f'Write to <a href="{escape(target)}">{escape(contact)}</a>.'
