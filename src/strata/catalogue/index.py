"""The index of services in docs/."""

from __future__ import annotations

from strata.catalogue.discovery import services

HEADER = """# Index of services

Made from `services/*/service.py` by `python -m strata.models.generate`. Their settings are in [the reference](site.md).

| service | key in `platform.services` | what it is | how-to |
|---|---|---|---|
"""


def index_text() -> str:
    """What docs/reference/services.md holds."""
    rows = []
    for service in services():
        what = (service.settings.__doc__ or "").strip().splitlines()[0].replace("<", "&lt;")
        rows.append(
            f"| {service.name} | `{service.key}` | {what} | [README](../../services/{service.name}/README.md) |\n"
        )
    return HEADER + "".join(rows)
