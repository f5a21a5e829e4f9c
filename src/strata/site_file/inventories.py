"""Sites by name."""

from __future__ import annotations

import os
from pathlib import Path

from strata.errors import UserError
from strata.site.paths import INSTALLED, REPOSITORY
from strata.site_file.problems import suggestion

SITE_FILE = "site.yaml"
EXAMPLES = REPOSITORY / "inventories"


def inventories() -> Path:
    """Where sites are, one directory each: in a clone beside the examples, which an installed Strata brings itself."""
    if not INSTALLED:
        return EXAMPLES
    return Path(os.environ.get("STRATA_INVENTORIES") or "inventories").expanduser().absolute()


def site_names() -> list[str]:
    """Names of the sites under inventories/, the examples included."""
    return sorted({file.parent.name for place in (inventories(), EXAMPLES) for file in place.glob(f"*/{SITE_FILE}")})


def find_site(name_or_path: str | Path) -> Path:
    """The file of a site.

    Args:
        name_or_path: name of a directory under inventories/, of an example, or a path of a site file or its directory.

    Raises:
        UserError: there is none.
    """
    text = str(name_or_path)
    if "\0" in text or len(text) > 4096:
        raise UserError("not a site name or path", fix=f"one of {', '.join(site_names())}")
    try:
        for place in (inventories(), EXAMPLES):
            if "/" not in text and (named := place / text / SITE_FILE).is_file():
                return named
        path = Path(text).expanduser()
        if path.is_dir() and (path / SITE_FILE).is_file():
            return path / SITE_FILE
        if "/" in text or path.suffix in (".yaml", ".yml") or path.exists():
            return path  # the loader reports what is wrong with it
    except (OSError, RuntimeError) as error:  # RuntimeError: no such home directory
        names = ", ".join(site_names())
        raise UserError(f"{text}: {error}", fix=f"one of {names}", see="there-is-no-such-site") from None
    raise UserError(f"there is no site {text} under {inventories()}", fix=suggestion(text, site_names(), "sites"))
