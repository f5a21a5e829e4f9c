"""One model or dataset of the catalogue, as a file or the Hugging Face Hub describes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator

if TYPE_CHECKING:
    from huggingface_hub import DatasetInfo, ModelInfo

_WORD = re.compile(r"[^\W_]+")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*")


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character, which PostgreSQL cannot keep")
    return text


LONGEST = 256
LONGEST_TEXT = 20_000
"""Of a description or a citation."""
Name = Annotated[str, Field(min_length=1, max_length=LONGEST), AfterValidator(_no_nul)]


Prose = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT), AfterValidator(_no_nul)]


def _names(values: Iterable[object]) -> tuple[str, ...]:
    """Those that are a `Name`, each once: anyone may write a tag of any form at a hub."""
    return tuple(dict.fromkeys(v for v in values if isinstance(v, str) and 0 < len(v) <= LONGEST and "\0" not in v))


def _name(value: object) -> str | None:
    return next(iter(_names([value])), None)


def _prose(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= LONGEST_TEXT and "\0" not in value else None


def _tagged(tags: Iterable[object], prefix: str) -> tuple[str, ...]:
    """What follows the prefix in tags that have it."""
    return _names(tag.removeprefix(prefix) for tag in tags if isinstance(tag, str) and tag.startswith(prefix))


def words(text: str) -> list[str]:
    """Lower-case runs of letters and digits: what can be searched for.

    Example: `google/flan-t5-large` → google, flan, t5, large.
    """
    return _WORD.findall(text.lower())


class Record(BaseModel):
    """What models and datasets have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    id: Name = Field(description="Name with its author: google/flan-t5-large.")
    hub_id: Name | None = Field(
        default=None, validation_alias=AliasChoices("hub_id", "_id"), description="Identifier of the hub's own."
    )
    author: Name | None = Field(default=None, description="Account it belongs to; unset: the part before the slash.")
    downloads: int = Field(default=0, ge=0, lt=2**63, description="Downloads in the last 30 days.")
    likes: int = Field(default=0, ge=0, lt=2**63, description="Likes.")
    license: Name | None = Field(default=None, description="Identifier of its license: apache-2.0, …")
    languages: tuple[Name, ...] = Field(default=(), description="Languages as ISO 639 codes.")
    tags: tuple[Name, ...] = Field(default=(), description="All other tags.")
    disabled: bool = Field(default=False, description="Whether the hub has disabled it.")
    gated: bool = Field(default=False, description="Whether its files are for accounts that were granted access.")
    private: bool = Field(default=False, description="Whether only its owners see it.")
    created_at: datetime | None = Field(
        default=None, validation_alias=AliasChoices("created_at", "createdAt"), description="When it was published."
    )
    last_modified: datetime | None = Field(
        default=None, validation_alias=AliasChoices("last_modified", "lastModified"), description="Its last change."
    )

    @field_validator("created_at", "last_modified")
    @classmethod
    def _in_utc(cls, value: datetime | None) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)

    @model_validator(mode="before")
    @classmethod
    def _derive_author(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.get("author"):
            owner, slash, _ = str(values.get("id", "")).partition("/")
            if slash and owner:
                return {**values, "author": owner}
        return values

    @staticmethod
    def common(info: ModelInfo | DatasetInfo) -> dict[str, Any]:
        """Fields of what `HfApi` lists; values that are not `Name` are left out.

        The languages are those of the card where it was sent.
        """
        tags = list(info.tags or [])
        language: Any = getattr(info.card_data, "language", None) or []
        languages = [language] if isinstance(language, str) else list(language)
        return {
            "id": info.id,
            "hub_id": _name(getattr(info, "_id", None)),
            "author": _name(info.author),
            "downloads": info.downloads or 0,
            "likes": info.likes or 0,
            "license": next(iter(_tagged(tags, "license:")), None),
            "languages": _names(x for x in languages if isinstance(x, str) and _LANGUAGE.fullmatch(x)),
            "tags": _names(tags),
            "disabled": bool(info.disabled),
            "gated": bool(info.gated),
            "private": bool(info.private),
            "created_at": info.created_at,
            "last_modified": info.last_modified,
        }

    def searched(self) -> tuple[str, ...]:
        """Texts whose words find it."""
        return (self.id, *self.tags)

    def row(self) -> dict[str, Any]:
        """Values for the table, the searched words among them."""
        values = {name: list(v) if isinstance(v, tuple) else v for name, v in self.model_dump().items()}
        values["search_text"] = " ".join(dict.fromkeys(w for text in self.searched() for w in words(text)))
        return values


class ModelRecord(Record):
    """One model; the fields are those of huggingface_hub's ModelInfo."""

    pipeline_tag: Name | None = Field(default=None, description="Task: text-generation, image-classification, …")
    library_name: Name | None = Field(default=None, description="Library it was made with: transformers, …")
    datasets: tuple[Name, ...] = Field(default=(), description="Datasets that it was trained on.")

    @classmethod
    def from_hub(cls, info: ModelInfo) -> Self:
        """The record of what `HfApi.list_models` returned; values that are not `Name` are left out.

        Without languages in its card, they come from the tags.

        Raises:
            ValidationError: the id is not a `Name`, or a number or a date is none.
        """
        common, tags = cls.common(info), list(info.tags or [])
        if not getattr(info.card_data, "language", None):
            common["languages"] = _names(t for t in tags if isinstance(t, str) and re.fullmatch(r"[a-z]{2}", t))
        return cls(
            **common,
            pipeline_tag=_name(info.pipeline_tag),
            library_name=_name(info.library_name),
            datasets=_tagged(tags, "dataset:"),
        )

    def searched(self) -> tuple[str, ...]:
        """Name, task, library, tags and datasets."""
        return (self.id, self.pipeline_tag or "", self.library_name or "", *self.tags, *self.datasets)


class DatasetRecord(Record):
    """One dataset; the fields are those of huggingface_hub's DatasetInfo, tasks and sizes those of its card."""

    task_categories: tuple[Name, ...] = Field(default=(), description="Tasks: question-answering, …")
    size_categories: tuple[Name, ...] = Field(default=(), description="Numbers of rows: 10K<n<100K, …")
    description: Prose | None = Field(default=None, description="What it is.")
    citation: Prose | None = Field(default=None, description="How to cite it, in BibTeX.")
    paperswithcode_id: Name | None = Field(default=None, description="Identifier at Papers with Code.")

    @classmethod
    def from_hub(cls, info: DatasetInfo) -> Self:
        """The record of what `HfApi.list_datasets` returned; values that are not `Name`, and long texts, are left out.

        Without languages in its card, they come from the tags.

        Raises:
            ValidationError: the id is not a `Name`, or a number or a date is none.
        """
        common, tags = cls.common(info), list(info.tags or [])
        if not common["languages"]:
            common["languages"] = tuple(x for x in _tagged(tags, "language:") if _LANGUAGE.fullmatch(x))
        return cls(
            **common,
            task_categories=_tagged(tags, "task_categories:"),
            size_categories=_tagged(tags, "size_categories:"),
            description=_prose(info.description),
            citation=_prose(info.citation),
            paperswithcode_id=_name(info.paperswithcode_id),
        )

    def searched(self) -> tuple[str, ...]:
        """Name, description, tasks and tags."""
        return (self.id, self.description or "", *self.task_categories, *self.tags)


KINDS: dict[str, type[ModelRecord] | type[DatasetRecord]] = {"models": ModelRecord, "datasets": DatasetRecord}
"""What a catalogue holds, by the key in its file, which is the table's name too."""


def entries(content: object) -> dict[str, list[object]]:
    """The lists of a catalogue's file; a list alone is one of models.

    Args:
        content: of the JSON file.

    Raises:
        ValueError: it is something else; the message has what it must be.
    """
    if isinstance(content, list):
        content = {"models": content}
    if not isinstance(content, dict) or not content.keys() <= KINDS.keys():
        raise ValueError("must hold a list of models, or an object with the lists models and datasets")
    for kind, listed in content.items():
        if not isinstance(listed, list):
            raise ValueError(f"{kind} must be a list, is {type(listed).__name__}")
    return {kind: content.get(kind, []) for kind in KINDS}
