"""Asks a model server by unmodified clients and prints what they read, as JSON: `python clients.py URL MODEL`."""

from __future__ import annotations

import json
import sys
from typing import Any

import openai
from huggingface_hub import InferenceClient

PROMPT = "one two three"
MESSAGES: list[Any] = [{"role": "user", "content": PROMPT}]


def generated(url: str, model: str) -> dict[str, Any]:
    """Of a model that generates text."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)
    hub = InferenceClient(model=url)
    completion = client.completions.create(model=model, prompt=[PROMPT, "four"], max_tokens=8)
    parts = list(client.completions.create(model=model, prompt=PROMPT, max_tokens=8, stream=True))
    chat = client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=8)
    chunks = list(
        client.chat.completions.create(
            model=model, messages=MESSAGES, max_tokens=8, stream=True, stream_options={"include_usage": True}
        )
    )
    assert completion.usage is not None
    assert chunks[-1].usage is not None
    return {
        "models": [model.id for model in client.models.list()],
        "completions": [[choice.text, choice.finish_reason] for choice in completion.choices],
        "tokens": [completion.usage.prompt_tokens, completion.usage.completion_tokens],
        "streamed": "".join(part.choices[0].text for part in parts),
        "parts": len(parts),
        "chat": [chat.choices[0].message.role, chat.choices[0].message.content, chat.choices[0].finish_reason],
        "chat_streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "chat_end": [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1],
        "chat_tokens": chunks[-1].usage.completion_tokens,
        "inference_client": hub.text_generation(PROMPT, max_new_tokens=8),
        "inference_client_streamed": "".join(hub.text_generation(PROMPT, max_new_tokens=8, stream=True)),
        "inference_client_chat": InferenceClient(base_url=url)
        .chat.completions.create(messages=MESSAGES, model=model, max_tokens=8)
        .choices[0]
        .message.content,
        "refused": _refused(client, model),
    }


def _refused(client: openai.OpenAI, model: str) -> list[Any]:
    """How OpenAI's client names the errors."""
    errors: list[Any] = []
    for arguments in ({"model": "another"}, {"max_tokens": 1_000_000}, {"prompt": "long " * 5000}):
        try:
            client.completions.create(**{"model": model, "prompt": PROMPT, **arguments})
        except openai.APIStatusError as error:
            errors.append([type(error).__name__, error.code, error.param])
    return errors


def embedded(url: str, model: str) -> dict[str, Any]:
    """Of a model that makes embeddings."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)
    packed = client.embeddings.create(model=model, input=["one two three four five", "six"])
    plain = client.embeddings.create(model=model, input="six", encoding_format="float")
    return {
        "packed": [item.embedding for item in packed.data],
        "plain": plain.data[0].embedding,
        "tokens": packed.usage.prompt_tokens,
        "inference_client": InferenceClient(model=url).feature_extraction("six").tolist(),
    }


def classified(url: str, model: str) -> dict[str, Any]:
    """Of a model that classifies."""
    labels = InferenceClient(model=url).text_classification(PROMPT)
    return {"labels": [[label.label, label.score] for label in labels]}


if __name__ == "__main__":
    kind, *where = sys.argv[1:]
    print(json.dumps({"generated": generated, "embedded": embedded, "classified": classified}[kind](*where)))
