"""The index of services in docs/."""

from __future__ import annotations

from strata.catalogue.discovery import services

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
        what = (service.section.__doc__ or "").strip().splitlines()[0].replace("<", "&lt;")
        rows.append(
            f"| {service.name} | `{service.key}` | {what} | [README](../../services/{service.name}/README.md) |\n"
        )
    return HEADER + "".join(rows)
