"""Settings, from environment variables."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Accelerator(StrEnum):
    """Where the model runs; with AUTO, on a GPU if there is one."""

    AUTO = "auto"
    CPU = "cpu"
    GPU = "gpu"


class Task(StrEnum):
    """What a model does; with AUTO, its configuration decides."""

    AUTO = "auto"
    SEQ2SEQ = "seq2seq"
    CAUSAL = "causal"
    CLASSIFICATION = "classification"
    EMBEDDINGS = "embeddings"


class Settings(BaseSettings):
    """Each field is the variable MODEL_SERVER_<FIELD>, but ACCELERATOR."""

    model_config = SettingsConfigDict(env_prefix="MODEL_SERVER_", frozen=True, populate_by_name=True)

    model: Annotated[str, Field(min_length=1)]
    """Id of a model at HF_ENDPOINT, or the path of a directory."""
    revision: str = "main"
    """Branch, tag or commit; a directory has none."""
    name: str = ""
    """What clients call the model; empty: as `model`."""
    task: Task = Task.AUTO
    accelerator: Annotated[Accelerator, Field(validation_alias="ACCELERATOR")] = Accelerator.AUTO
    safetensors_only: bool = True
    """Refuses weights in pickle files, which run code when they are loaded."""
    gpu_memory_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Part of the GPU's memory that the process may allocate, for GPUs that several pods share."""
    port: Annotated[int, Field(ge=1, le=65535)] = 8080
    batch_size: Annotated[int, Field(ge=1)] = 32
    """Requests that run at once."""
    batch_wait: Annotated[float, Field(ge=0, le=1)] = 0.003
    """Seconds that a request waits for others, once the model is idle."""
    queue_size: Annotated[int, Field(ge=1)] = 128
    """Inputs that wait or run; beyond it, requests are refused with 429."""
    timeout: Annotated[float, Field(gt=0)] = 60.0
    """Seconds that a request may wait and run."""
    input_tokens: Annotated[int, Field(ge=1)] | None = None
    """The longest input; unset: what the model's configuration names, else 512."""
    output_tokens: Annotated[int, Field(ge=1)] = 1024
    """The highest max_tokens of a request."""
    default_output_tokens: Annotated[int, Field(ge=1)] = 128
    """Of a request without max_tokens."""

    @property
    def served_name(self) -> str:
        """What clients call the model."""
        return self.name or self.model
