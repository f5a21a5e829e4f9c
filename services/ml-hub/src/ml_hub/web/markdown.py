"""Cards as HTML: Markdown that anyone may have written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

LONGEST = 100_000
"""Characters of a card that are shown."""
CUT = "\n\n…"
_LINK = re.compile(r"(https?://|mailto:)", re.IGNORECASE)
_LEVELS_BELOW = 2
"""Headings of the page that are above those of the card."""


class _Renderer(RendererHTML):
    """Without images, which would show other servers the readers of a card."""

    def image(self, tokens: Sequence[Token], index: int, _: Any, __: Any) -> str:
        """Its text."""
        return Markup.escape(tokens[index].content)


@lru_cache(maxsize=32)
def card_html(text: str) -> Markup:
    """A card, without any HTML of its own: tags are shown as text. The last ones are kept: pages follow the server.

    Args:
        text: Markdown.
    """
    tokens = _PARSER.parse(text if len(text) <= LONGEST else text[:LONGEST] + CUT)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + _LEVELS_BELOW)}"
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("rel", "noopener noreferrer nofollow")
    html = _PARSER.renderer.render(tokens, _PARSER.options, {})
    return Markup(html)  # noqa: S704  # the parser escapes all text, and takes no HTML


def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable(["table", "strikethrough"])
    # what is relative leads nowhere here, and any other scheme may be a program
    made.validateLink = lambda url: _LINK.match(url) is not None  # type: ignore[method-assign]  # as it is meant to be
    return made


_PARSER = _parser()
