"""Loads the model."""

from __future__ import annotations

from model_server.backend import Backend
from model_server.settings import Settings


def load(settings: Settings) -> Backend:
    """Loads the model of the settings.

    Raises:
        Exception: of transformers, the hub or PyTorch; see TransformersBackend.
    """
    from model_server.transformers_backend import TransformersBackend  # noqa: PLC0415  # PyTorch, for this process only

    return TransformersBackend(settings)
