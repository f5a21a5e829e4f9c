"""What an instance writes to its serial console."""

from __future__ import annotations

from typing import Any

from nova.virt.lab.containers import container_name
from nova.virt.lab.podman import podman


class ConsoleMixin:
    """The part of nova's driver that is about consoles."""

    def get_console_output(self, context: Any, instance: Any) -> bytes:  # noqa: ARG002
        """Everything since the instance was made, its last 1,000 lines."""
        written: str = podman("logs", "--tail", "1000", container_name(instance))
        return written.encode()
