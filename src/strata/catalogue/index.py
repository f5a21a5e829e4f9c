"""The index of services in docs/."""

from __future__ import annotations

from strata.catalogue.discovery import services
from strata.models.base import summary

HEADER = """# Index of services

Generated from `services/*/settings.py` by `python -m strata.site_file.generate`. [The reference](site.md) describes the
settings.

| service | key in `platform.services` | description | guide |
|---|---|---|---|
"""


def index_text() -> str:
    """What docs/reference/services.md holds."""
    rows = []
    for service in services():
        what = summary(service.section).replace("<", "&lt;")
        rows.append(
            f"| {service.name} | `{service.key}` | {what} | [README](../../services/{service.name}/README.md) |\n"
        )
    return HEADER + "".join(rows)
