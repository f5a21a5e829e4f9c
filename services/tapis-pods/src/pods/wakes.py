"""What is to be compared next."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable


class Wakes:
    """Tenants whose pods have changed; threads add them, one takes them.

    Args:
        tenants: of the site.
    """

    def __init__(self, tenants: Iterable[str]) -> None:
        self._all = frozenset(tenants)
        self._woken: frozenset[str] = frozenset()
        self._changed = threading.Condition()

    def add(self, tenant: str) -> None:
        """A tenant; all where it is none of the site's."""
        with self._changed:
            self._woken |= {tenant} & self._all or self._all
            self._changed.notify()

    def take(self, until: float) -> frozenset[str]:
        """Those added since the last call, as soon as there are any; all of them when the time has come.

        Args:
            until: on the clock of `time.monotonic`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._woken or time.monotonic() >= until, until - time.monotonic())
            due = self._all if time.monotonic() >= until else self._woken
            self._woken = frozenset()
        return due
