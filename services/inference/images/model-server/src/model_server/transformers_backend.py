"""A model of transformers."""

from __future__ import annotations

import json
import logging
import queue
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer
from transformers.utils import cached_file

from model_server.backend import BrokenError, OutOfMemoryError, Prepared, RefusedError
from model_server.devices import choose_device, choose_dtype
from model_server.jobs import Classified, Embedded, Event, Failed, Job, Kind, Usage
from model_server.processors import usable_processors
from model_server.rows import Row, Rows
from model_server.settings import Settings, Task

LOG = logging.getLogger(__name__)

CLASSES = {
    Task.SEQ2SEQ: "AutoModelForSeq2SeqLM",
    Task.CAUSAL: "AutoModelForCausalLM",
    Task.CLASSIFICATION: "AutoModelForSequenceClassification",
    Task.EMBEDDINGS: "AutoModel",
}
GENERATES = frozenset({Task.SEQ2SEQ, Task.CAUSAL})
DEFAULT_INPUT_TOKENS = 512
"""For models whose configuration names no limit, such as T5."""
UNLIMITED = 10**9
"""Tokenizers without a limit have a larger model_max_length."""


class ModelError(Exception):
    """The model cannot be served."""


class TransformersBackend:
    """A loaded model and its tokenizer.

    Args:
        settings: which model, and where.

    Raises:
        ModelError: the files do not fit together.
        DeviceError: the device is missing.
        OSError: the hub does not have the model, or cannot be reached.
    """

    def __init__(self, settings: Settings) -> None:
        torch.set_num_threads(usable_processors())
        torch.set_grad_enabled(False)
        self._name = settings.served_name
        self.device = choose_device(settings)
        # a local directory has no revision
        source: dict[str, Any] = {"revision": settings.revision} if not Path(settings.model).is_dir() else {}
        config = AutoConfig.from_pretrained(settings.model, trust_remote_code=False, **source)
        self.task = settings.task if settings.task is not Task.AUTO else task_of(config)
        self.dtype = choose_dtype(self.device, config.model_type)
        self._tokenizer = AutoTokenizer.from_pretrained(settings.model, trust_remote_code=False, **source)
        self._model = getattr(transformers, CLASSES[self.task]).from_pretrained(
            settings.model,
            dtype=self.dtype,
            trust_remote_code=False,
            use_safetensors=True if settings.safetensors_only else None,
            **source,
        )
        self._model.to(self.device).eval()
        rows = self._model.get_input_embeddings().weight.shape[0]
        if len(self._tokenizer) > rows:
            raise ModelError(
                f"model {settings.model}: its tokenizer has {len(self._tokenizer)} tokens, its embeddings {rows}; "
                "publish the tokenizer that the model was trained with"
            )
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._tokenizer.padding_side = "left" if self.task is Task.CAUSAL else "right"
        self._limit = settings.input_tokens or input_limit(config, self._tokenizer)
        self._default_tokens = min(settings.default_output_tokens, settings.output_tokens)
        # a causal model's input and output share its positions
        self._context = context_of(config) if self.task is Task.CAUSAL else None
        self._pooling = pooling_of(settings, source) if self.task is Task.EMBEDDINGS else ("mean", False)
        if self.task in GENERATES:
            ends = self._model.generation_config.eos_token_id
            self._ends = frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])
        LOG.info(
            "%s: %s on %s in %s, inputs up to %d tokens", self._name, self.task, self.device, self.dtype, self._limit
        )

    def prepare(self, job: Job) -> Prepared:
        """See Backend."""
        if job.kind is Kind.GENERATE and self.task not in GENERATES:
            raise self._refused(
                f"model {self._name} generates no text ({self.task}); send its input to POST /", "model"
            )
        if job.kind is Kind.EMBED and self.task is not Task.EMBEDDINGS:
            raise self._refused(f"model {self._name} makes no embeddings ({self.task})", "model")
        special = True
        if job.text is not None:
            text = job.text
        elif getattr(self._tokenizer, "chat_template", None):
            turns = [{"role": message.role, "content": message.content} for message in job.messages]
            try:
                text = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
            except Exception as error:  # templates are the model's own programs and raise what they like
                raise self._refused(
                    f"the chat template of {self._name} refuses the messages: {error}", "messages"
                ) from error
            special = False
        else:
            text = "\n".join(message.content for message in job.messages)
        tokens = tuple(self._tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"])
        parameter = "input" if job.kind is Kind.EMBED else "prompt" if job.text is not None else "messages"
        if not tokens:
            raise self._refused("the input is empty; send at least one token", parameter)
        if len(tokens) > self._limit:
            raise self._refused(
                f"the input has {len(tokens)} tokens, model {self._name} reads {self._limit} at most; shorten it",
                parameter,
                "context_length_exceeded",
            )
        if self.task not in GENERATES:
            return Prepared(job, tokens)
        room = self._context - len(tokens) if self._context else UNLIMITED
        if room < (job.max_tokens or 1):
            raise self._refused(
                f"{len(tokens)} tokens of input and max_tokens {job.max_tokens or 1} exceed the {self._context} tokens "
                f"of {self._name}; lower max_tokens, or shorten the input",
                "max_tokens",
                "context_length_exceeded",
            )
        return Prepared(job, tokens, job.max_tokens or min(self._default_tokens, room), job.sampling)

    @staticmethod
    def _refused(message: str, parameter: str, code: str = "invalid_request") -> RefusedError:
        return RefusedError(Failed(400, code, message, parameter))

    def run(self, batch: Sequence[Prepared]) -> Iterator[tuple[int, Event]]:
        """See Backend."""
        try:
            if self.task not in GENERATES:
                yield from self._forward(batch)
            elif any(prepared.job.stream for prepared in batch):
                yield from self._streamed(batch)
            else:
                events: list[tuple[int, Event]] = []
                self._generate(batch, events.append)
                yield from events
        except Exception as error:
            raise translated(error) from error

    def free_memory(self) -> None:
        """See Backend."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _inputs(self, batch: Sequence[Prepared]) -> dict[str, torch.Tensor]:
        padded = self._tokenizer.pad({"input_ids": [list(p.tokens) for p in batch]}, return_tensors="pt")
        return {
            name: tensor.to(self.device) for name, tensor in padded.items() if name in {"input_ids", "attention_mask"}
        }

    def _streamed(self, batch: Sequence[Prepared]) -> Iterator[tuple[int, Event]]:
        """Generates in a thread, so that what is sent leaves between two steps."""
        events: queue.SimpleQueue[tuple[int, Event] | BaseException | None] = queue.SimpleQueue()

        def generate() -> None:
            try:
                with torch.no_grad():  # of this thread
                    self._generate(batch, events.put)
                events.put(None)
            except BaseException as error:
                events.put(error)

        thread = threading.Thread(target=generate)
        thread.start()
        while (event := events.get()) is not None:
            if isinstance(event, BaseException):
                raise event
            yield event
        thread.join()

    def _generate(self, batch: Sequence[Prepared], send: Any) -> None:
        sampling = batch[0].job.sampling
        rows = [Row(prepared, self._tokenizer, len(batch)) for prepared in batch]
        watch = Rows(rows, self._ends, lambda position, event: send((position, event)))
        chosen: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        if sampling.temperature > 0:
            chosen = {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": 0}
        if sampling.seed is not None:
            torch.manual_seed(sampling.seed)
        self._model.generate(
            **self._inputs(batch),
            **chosen,
            num_beams=1,
            max_new_tokens=max(prepared.max_tokens for prepared in batch),
            min_new_tokens=None,
            max_length=None,
            pad_token_id=self._tokenizer.pad_token_id,
            stopping_criteria=[watch],
            streamer=watch,
        )

    def _forward(self, batch: Sequence[Prepared]) -> Iterator[tuple[int, Event]]:
        inputs = self._inputs(batch)
        usages = [Usage(len(prepared.tokens), 0, len(batch)) for prepared in batch]
        output = self._model(**inputs)
        if self.task is Task.EMBEDDINGS:
            vectors = self._pooled(output.last_hidden_state, inputs["attention_mask"]).float().tolist()
            for position, (vector, usage) in enumerate(zip(vectors, usages, strict=True)):
                yield position, Embedded(tuple(vector), usage)
            return
        several = self._model.config.problem_type == "multi_label_classification"
        logits = output.logits.float()
        names = self._model.config.id2label
        for position, (scores, usage) in enumerate(
            zip((logits.sigmoid() if several else logits.softmax(-1)).tolist(), usages, strict=True)
        ):
            labels = sorted(((names[i], score) for i, score in enumerate(scores)), key=lambda label: -label[1])
            yield position, Classified(tuple(labels), usage)

    def _pooled(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        mode, normalize = self._pooling
        if mode == "cls":
            vectors = hidden[:, 0]
        else:
            weights = mask.unsqueeze(-1).to(hidden.dtype)
            vectors = (hidden * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(vectors, dim=-1) if normalize else vectors


def task_of(config: Any) -> Task:
    """What a model does, by its configuration."""
    names = " ".join(config.architectures or [])
    if "ForSequenceClassification" in names:
        return Task.CLASSIFICATION
    if getattr(config, "is_encoder_decoder", False) and "ForConditionalGeneration" in names:
        return Task.SEQ2SEQ
    if "ForCausalLM" in names or "LMHeadModel" in names:
        return Task.CAUSAL
    if getattr(config, "is_encoder_decoder", False):
        return Task.SEQ2SEQ
    return Task.EMBEDDINGS


def context_of(config: Any) -> int | None:
    """Positions of a model, None if its configuration names none."""
    for name in ("max_position_embeddings", "n_positions"):
        value = getattr(config, name, None)
        # T5's n_positions is a rest: its positions are relative
        if isinstance(value, int) and value > 0 and "t5" not in config.model_type:
            return value
    return None


def input_limit(config: Any, tokenizer: Any) -> int:
    """The longest input of a model, in tokens."""
    limits = [context_of(config), tokenizer.model_max_length]
    known = [limit for limit in limits if limit and limit < UNLIMITED]
    return min(known, default=DEFAULT_INPUT_TOKENS)


def pooling_of(settings: Settings, source: dict[str, Any]) -> tuple[str, bool]:
    """How token vectors become a text's, as sentence-transformers writes it: mode, and whether its length is 1."""

    def read(name: str) -> Any:
        file = cached_file(settings.model, name, _raise_exceptions_for_missing_entries=False, **source)
        return json.loads(Path(file).read_text()) if file else None

    modules = read("modules.json") or []
    pooling = read("1_Pooling/config.json") or {}
    normalize = any(module.get("type", "").endswith("Normalize") for module in modules)
    return ("cls" if pooling.get("pooling_mode_cls_token") else "mean"), normalize


def translated(error: Exception) -> Exception:
    """PyTorch's error as the batches know it."""
    exhausted = ("DefaultCPUAllocator: can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")
    if isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in exhausted):
        return OutOfMemoryError(str(error))
    if isinstance(error, RuntimeError) and ("CUDA error" in str(error) or "CUBLAS_STATUS" in str(error)):
        return BrokenError(str(error))
    return error
