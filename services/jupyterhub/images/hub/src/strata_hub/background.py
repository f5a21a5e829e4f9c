"""What the hub does beside requests."""

from __future__ import annotations

from typing import Any

from jupyterhub.auth import Authenticator
from traitlets import List


class BackgroundTasks(Authenticator):  # type: ignore[misc]
    """Begins them once the hub starts, where its configuration cannot: `jupyterhub token` and the hub's other commands
    read that too."""

    background = List(config=True, help="Called without arguments when the hub starts; what they return is kept.")

    def get_handlers(self, app: Any) -> list[tuple[Any, ...]]:
        """Called in the hub's loop, once its services are known."""
        self._background = [start() for start in self.background]
        return list(super().get_handlers(app))
