"""When a site was last verified; without pytest, whose import takes longer than most commands."""

from __future__ import annotations

import json
import time

from strata.site.outputs import write_private
from strata.site.paths import SitePaths

FILE = "verified.json"


def record_verified(paths: SitePaths, seconds: float) -> None:
    """Records that all checks passed now, after that many seconds."""
    record = {"ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "seconds": round(seconds, 1)}
    write_private(paths.root / FILE, json.dumps(record))


def last_verified(paths: SitePaths) -> str | None:
    """When all checks last passed, ISO 8601; None if never."""
    file = paths.root / FILE
    return str(json.loads(file.read_text())["ended"]) if file.exists() else None
