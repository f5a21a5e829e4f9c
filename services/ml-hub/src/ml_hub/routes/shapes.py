"""Results of the API, as Tapis' generated clients of models and datasets read them.

What is unknown is left out: of most fields, the clients' types have no null.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from ml_hub.repository import Repository
from strata_http.values import Response


class Summary(Response):
    """What lists show of models and datasets."""

    hub_id: str | None = Field(default=None, serialization_alias="_id", description="Identifier of the hub's own.")
    created_at: datetime | None = None
    last_modified: datetime | None = None
    author: str | None = Field(default=None, description="Account it belongs to.", examples=["google"])
    disabled: bool = Field(default=False, description="Whether the hub has disabled it.")
    downloads: int = Field(description="Downloads in the last 30 days.")
    gated: bool = Field(default=False, description="Whether its files need an access that its owners grant.")
    private: bool = False
    tags: list[str]
    likes: int
    license: str | None = Field(default=None, examples=["apache-2.0"])
    languages: list[str] = Field(description="ISO 639 codes.", examples=[["en", "de"]])


class ModelSummary(Summary):
    """A model in a list."""

    model_id: str = Field(validation_alias="id", description="Its name.", examples=["google/flan-t5-large"])
    library_name: str | None = Field(default=None, examples=["transformers"])
    pipeline_tag: str | None = Field(default=None, description="Task.", examples=["text2text-generation"])
    datasets: list[str] = Field(description="Datasets that it was trained on.", examples=[["c4"]])


class DatasetSummary(Summary):
    """A dataset in a list."""

    dataset_id: str = Field(validation_alias="id", description="Its name.", examples=["rajpurkar/squad"])
    task_categories: list[str] = Field(examples=[["question-answering"]])
    size_categories: list[str] = Field(examples=[["10K<n<100K"]])


class TransformersInfo(Response):
    """How the library transformers loads a model."""

    auto_model: str | None = Field(default=None, examples=["AutoModelForSeq2SeqLM"])
    custom_class: str | None = None
    pipeline_tag: str | None = Field(default=None, examples=["text2text-generation"])
    processor: str | None = Field(default=None, examples=["AutoTokenizer"])


class Detail(Response):
    """What only one repository shows; a hub has it, a catalogue's file has not."""

    card_data: dict[str, Any] | None = Field(default=None, description="Metadata of its card.")
    repository_content: list[str] | None = Field(default=None, description="Names of its files.")
    sha: str | None = Field(default=None, description="Its newest commit.")


class Model(ModelSummary, Detail):
    """All that is known of a model."""

    config: dict[str, Any] | None = None
    model_index: list[Any] | None = Field(default=None, description="Results of evaluations.")
    transformers_info: TransformersInfo | None = None
    widget_data: list[Any] | None = Field(default=None, description="Examples of input.")


class Dataset(DatasetSummary, Detail):
    """All that is known of a dataset."""

    description: str | None = None
    citation: str | None = Field(default=None, description="BibTeX.")
    paperswithcode_id: str | None = None


class Download(Response):
    """Where the files of a repository are."""

    sha: str | None = Field(default=None, description="Commit that the links are of.")
    created_at: datetime | None = None
    last_modified: datetime | None = None
    download_links: dict[str, str] = Field(description="URL of each file, by its name.")


class ModelDownload(Download):
    """Where the files of a model are."""

    model_id: str


class DatasetDownload(Download):
    """Where the files of a dataset are."""

    dataset_id: str


class ModelCard(Response):
    """Documentation of a model."""

    model_metadata: dict[str, Any] = Field(description="Metadata of the card.")
    model_card: str = Field(description="Markdown.")


class DatasetCard(Response):
    """Documentation of a dataset."""

    dataset_metadata: dict[str, Any] = Field(description="Metadata of the card.")
    dataset_card: str = Field(description="Markdown.")


class ModelServer(Response):
    """The inference server of a model."""

    model_id: str
    inference_endpoint: str = Field(description="URL that takes {prompt}, with the same token.")
    prompt_example: list[dict[str, Any]] = Field(description="Examples of input that the hub has.")
    transformers_info: TransformersInfo


class InferencePossible(Response):
    """Why no inference server responds for a model."""

    model_id: str
    inference_server_possible: bool = Field(description="Whether one could run it.")
    transformers_info: TransformersInfo


def transformers_info(repository: Repository) -> TransformersInfo | None:
    """Of the hub; None where that has none."""
    info = repository.mapping("transformersInfo")
    if info is None:
        return None
    return TransformersInfo(**{n: info[n] for n in TransformersInfo.model_fields if isinstance(info.get(n), str)})


def _detail(repository: Repository) -> dict[str, Any]:
    return {"card_data": repository.mapping("cardData"), "repository_content": repository.files, "sha": repository.sha}


def model(repository: Repository) -> Model:
    """All that is known of a model."""
    own = {
        "config": repository.mapping("config"),
        "model_index": repository.sequence("model-index"),
        "transformers_info": transformers_info(repository),
        "widget_data": repository.sequence("widgetData"),
    }
    return Model.model_validate({**repository.entry, **_detail(repository), **own})


def dataset(repository: Repository) -> Dataset:
    """All that is known of a dataset."""
    return Dataset.model_validate({**repository.entry, **_detail(repository)})
