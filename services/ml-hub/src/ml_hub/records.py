"""One model of the catalogue, as a file or the Hugging Face Hub describes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo

_WORD = re.compile(r"[^\W_]+")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*")


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character, which PostgreSQL cannot keep")
    return text


LONGEST = 256
Name = Annotated[str, Field(min_length=1, max_length=LONGEST), AfterValidator(_no_nul)]


def _names(values: Iterable[object]) -> tuple[str, ...]:
    """Those that are a `Name`, each once: anyone may write a tag of any form at a hub."""
    return tuple(dict.fromkeys(v for v in values if isinstance(v, str) and 0 < len(v) <= LONGEST and "\0" not in v))


def _name(value: object) -> str | None:
    return next(iter(_names([value])), None)


def words(text: str) -> list[str]:
    """Lower-case runs of letters and digits: what can be searched for.

    Example: `google/flan-t5-large` → google, flan, t5, large.
    """
    return _WORD.findall(text.lower())


class ModelRecord(BaseModel):
    """One model; the fields are those of huggingface_hub's ModelInfo."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    id: Name = Field(description="Name with its author: google/flan-t5-large.")
    author: Name | None = Field(default=None, description="Account it belongs to; unset: the part before the slash.")
    downloads: int = Field(default=0, ge=0, description="Downloads in the last 30 days.")
    likes: int = Field(default=0, ge=0, description="Likes.")
    pipeline_tag: Name | None = Field(default=None, description="Task: text-generation, image-classification, …")
    library_name: Name | None = Field(default=None, description="Library it was made with: transformers, …")
    license: Name | None = Field(default=None, description="Identifier of its licence: apache-2.0, …")
    languages: tuple[Name, ...] = Field(default=(), description="Languages as ISO 639 codes.")
    datasets: tuple[Name, ...] = Field(default=(), description="Data sets that it was trained on.")
    tags: tuple[Name, ...] = Field(default=(), description="All other tags.")
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

    @classmethod
    def from_hub(cls, info: ModelInfo) -> Self:
        """The record of what `HfApi.list_models` returned; values that are no `Name` are left out.

        Languages and licence come from the model card where it was sent, else from the tags.

        Raises:
            ValidationError: the id is no `Name`, or a number or a date is none.
        """
        tags = list(info.tags or [])
        language: Any = getattr(info.card_data, "language", None) or [
            tag for tag in tags if isinstance(tag, str) and re.fullmatch(r"[a-z]{2}", tag)
        ]
        languages = [language] if isinstance(language, str) else list(language)

        def tagged(prefix: str) -> tuple[str, ...]:
            return _names(tag.removeprefix(prefix) for tag in tags if isinstance(tag, str) and tag.startswith(prefix))

        return cls(
            id=info.id,
            author=_name(info.author),
            downloads=info.downloads or 0,
            likes=info.likes or 0,
            pipeline_tag=_name(info.pipeline_tag),
            library_name=_name(info.library_name),
            license=next(iter(tagged("license:")), None),
            languages=_names(x for x in languages if isinstance(x, str) and _LANGUAGE.fullmatch(x)),
            datasets=tagged("dataset:"),
            tags=_names(tags),
            created_at=info.created_at,
            last_modified=info.last_modified,
        )

    def row(self) -> dict[str, Any]:
        """Values for the table, the searched words among them."""
        values = self.model_dump()
        for column in ("languages", "datasets", "tags"):
            values[column] = list(values[column])
        searched = (self.id, self.pipeline_tag or "", self.library_name or "", *self.tags, *self.datasets)
        values["search_text"] = " ".join(dict.fromkeys(w for text in searched for w in words(text)))
        return values
