"""What commands print for programs."""

from __future__ import annotations

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """Prints a value on standard output; what JSON has no type for is printed as text."""
    json.dump(value, sys.stdout, indent=1, default=str)
    print()
