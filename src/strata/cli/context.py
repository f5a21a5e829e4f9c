"""The site that a command is about."""

from __future__ import annotations

from strata.cli.arguments import site_file
from strata.engine.run_lock import refresh
from strata.site.context import SiteContext


def load_context(site: str) -> SiteContext:
    """The site given by name or path, with the newest state where a team shares it.

    Raises:
        UserError: there is no such site, its file has errors, or its state is not available.
    """
    context = SiteContext.load(site_file(site))
    refresh(context.paths, context.site.state)
    return context
