"""Writes what is generated from the model and the catalogue: `python -m strata.site_file.generate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from strata.catalogue.index import index_text
from strata.site.paths import REPOSITORY
from strata.site_file.reference import reference_text
from strata.site_file.schema import schema_text


def generated() -> Mapping[Path, str]:
    """File to content."""
    directory = REPOSITORY / "docs" / "reference"
    return {
        directory / "site.schema.json": schema_text(),
        directory / "site.md": reference_text(),
        directory / "services.md": index_text(),
    }


def main() -> None:
    """Writes the files."""
    for file, text in generated().items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    main()
