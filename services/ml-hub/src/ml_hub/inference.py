"""Whether an inference server could run a model, by its task and library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

AUTO_MODELS = {
    "text2text-generation": "AutoModelForSeq2SeqLM",
    "summarization": "AutoModelForSeq2SeqLM",
    "translation": "AutoModelForSeq2SeqLM",
    "text-generation": "AutoModelForCausalLM",
    "text-classification": "AutoModelForSequenceClassification",
    "feature-extraction": "AutoModel",
    "sentence-similarity": "AutoModel",
}
"""Tasks that a server built on transformers has, and the class that loads a model for them."""
LIBRARIES = frozenset({"transformers", "sentence-transformers"})


def auto_model(entry: Mapping[str, Any]) -> str | None:
    """Class of transformers that loads a model; None: none of the library's, or for another task."""
    return AUTO_MODELS.get(entry["pipeline_tag"] or "") if entry["library_name"] in LIBRARIES else None


def possible(entry: Mapping[str, Any]) -> bool:
    """Whether a server could run it: a task and library that it has, and files that it may read.

    Args:
        entry: of the catalogue.
    """
    return auto_model(entry) is not None and not (entry["disabled"] or entry["gated"] or entry["private"])
