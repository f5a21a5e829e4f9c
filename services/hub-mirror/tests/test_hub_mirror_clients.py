"""The mirror, judged by unmodified huggingface_hub and transformers; the second time without the Hub."""

from __future__ import annotations

import hashlib
import json
import os

from .conftest import Client, Mirror, StartMirror
from .fake_hub import FakeHub, Repo

WEIGHTS = os.urandom(300_000)
TOKENIZER: dict[str, object] = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "hello": 1, "world": 2}, "unk_token": "[UNK]"},
}  # fmt: skip
TOKENIZER_CONFIG = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
SNAPSHOT = """
import os
from huggingface_hub import snapshot_download
path = snapshot_download({repo!r}, repo_type={kind!r})
result = {{
    os.path.relpath(os.path.join(folder, name), path): os.path.getsize(os.path.join(folder, name))
    for folder, _, names in os.walk(path) for name in names
}}
"""


def test_a_snapshot_comes_from_the_cache_when_the_hub_is_gone(hub: FakeHub, mirror: Mirror, client: Client) -> None:
    for kind, name in (("models", "google/tiny"), ("models", "gpt2"), ("datasets", "google/words")):
        files = {"config.json": b"{}", "model.safetensors": WEIGHTS, "a/b c.txt": b"text"}
        hub.repos[f"{kind}/{name}"] = Repo(files)
        program = SNAPSHOT.format(repo=name, kind=kind.removesuffix("s"))
        expected = {path: len(content) for path, content in files.items()}
        assert client.run(mirror.inside, program, cache="first") == expected
        with hub.gone():
            assert client.run(mirror.inside, program, cache=f"second-{kind}-{len(name)}") == expected
    # large content is one file of the cache, whoever has it
    assert len(hub.fetched("model.safetensors")) == 2  # the redirect and the CDN
    assert mirror.count('hub_mirror_files_total{result="hit"}') > 0


def test_xet_is_hidden_so_that_clients_use_http(hub: FakeHub, mirror: Mirror, client: Client) -> None:
    hub.repos["models/google/tiny"] = Repo({"model.safetensors": WEIGHTS})
    client.environment["HF_HUB_DISABLE_XET"] = "0"
    program = SNAPSHOT.format(repo="google/tiny", kind="model")
    assert client.run(mirror.inside, program) == {"model.safetensors": len(WEIGHTS)}


def test_a_download_that_broke_off_at_the_client_resumes(hub: FakeHub, mirror: Mirror, client: Client) -> None:
    hub.repos["models/google/tiny"] = Repo({"model.safetensors": WEIGHTS})
    program = """
import hashlib, os
from huggingface_hub import hf_hub_url, get_hf_file_metadata
from huggingface_hub.file_download import http_get
url = hf_hub_url("google/tiny", "model.safetensors")
with open(os.environ["HF_HOME"] + ".part", "wb+") as part:
    part.write(bytes.fromhex(BEGIN))
    http_get(url, part, resume_size=len(BEGIN) // 2, expected_size=get_hf_file_metadata(url).size)
    part.seek(0)
    result = hashlib.sha256(part.read()).hexdigest()
""".replace("BEGIN", repr(WEIGHTS[:1000].hex()))
    assert client.run(mirror.inside, program) == hashlib.sha256(WEIGHTS).hexdigest()


def test_transformers_loads_configuration_and_tokenizer(hub: FakeHub, mirror: Mirror, client: Client) -> None:
    hub.repos["models/google/tiny"] = Repo({
        "config.json": json.dumps({"model_type": "t5", "d_model": 8}).encode(),
        "tokenizer.json": json.dumps(TOKENIZER).encode(),
        "tokenizer_config.json": json.dumps(TOKENIZER_CONFIG).encode(),
    })  # fmt: skip
    program = """
from transformers import AutoConfig, PreTrainedTokenizerFast
result = [AutoConfig.from_pretrained("google/tiny").d_model,
          PreTrainedTokenizerFast.from_pretrained("google/tiny")("hello world").input_ids]
"""
    assert client.run(mirror.inside, program) == [8, [1, 2]]
    with hub.gone():
        assert client.run(mirror.inside, program, cache="second") == [8, [1, 2]]


def test_lists_are_paged_filtered_and_kept(hub: FakeHub, mirror: Mirror, client: Client) -> None:
    for number in range(5):
        hub.repos[f"models/google/m{number}"] = Repo({}, tags=["dataset:c4"] if number % 2 else [])
    program = """
from huggingface_hub import list_models
result = [[m.id for m in list_models(author="google")],
          [m.id for m in list_models(filter="dataset:c4")],
          [m.id for m in list_models(search="m3", limit=1)]]
"""
    expected = [[f"google/m{n}" for n in range(5)], ["google/m1", "google/m3"], ["google/m3"]]
    assert client.run(mirror.inside, program) == expected
    seen: list[str] = []
    url = f"{mirror.inside}/api/models?limit=2"
    while url:
        response = mirror.get(url.removeprefix(mirror.inside))
        seen += [entry["id"] for entry in response.json()]
        url = response.links.get("next", {}).get("url", "")
        assert not url or url.startswith(f"{mirror.inside}/api/models?")
    assert seen == [f"google/m{n}" for n in range(5)]
    with hub.gone():
        assert client.run(mirror.inside, program, cache="second") == expected


def test_errors_are_the_exceptions_of_huggingface_hub(hub: FakeHub, mirror: Mirror, client: Client) -> None:
    hub.repos["models/google/tiny"] = Repo({"config.json": b"{}"})
    hub.repos["models/meta/gated"] = Repo({"config.json": b"{}"}, gated=True)
    program = """
from huggingface_hub import hf_hub_download
result = []
for repo, name, revision in (
    ("google/none", "config.json", None), ("google/tiny", "none.json", None),
    ("google/tiny", "config.json", "none"), ("meta/gated", "config.json", None),
):
    try:
        hf_hub_download(repo, name, revision=revision)
    except Exception as error:
        result.append(type(error).__name__)
"""
    assert client.run(mirror.inside, program) == [
        "RepositoryNotFoundError", "RemoteEntryNotFoundError", "RevisionNotFoundError", "GatedRepoError",
    ]  # fmt: skip


def test_from_outside_the_site_s_token_opens_the_mirror_alone(hub: FakeHub, mirror: Mirror, client: Client) -> None:
    hub.repos["models/google/tiny"] = Repo({"config.json": b"{}"})
    program = SNAPSHOT.format(repo="google/tiny", kind="model")
    refused = client.run(mirror.outside, program, cache="none")
    assert refused[0] in ("HfHubHTTPError", "LocalEntryNotFoundError"), refused
    assert client.run(mirror.outside, program, mirror.token()) == {"config.json": 2}
    assert {request.token for request in hub.seen} == {None}
    program = "from huggingface_hub import whoami\nresult = [whoami()['name'], whoami()['orgs'][0]['name']]"
    assert client.run(mirror.outside, program, mirror.token("ada", "hep")) == ["ada", "hep"]


def test_an_offline_mirror_knows_what_it_has(hub: FakeHub, start_mirror: StartMirror, client: Client) -> None:
    hub.repos["models/google/tiny"] = Repo({"config.json": b"{}"})
    program = SNAPSHOT.format(repo="google/tiny", kind="model")
    with start_mirror(hub) as first:
        assert client.run(first.inside, program) == {"config.json": 2}
    asked = len(hub.seen)
    with start_mirror(hub, first.storage, offline=True) as offline:
        assert client.run(offline.inside, program, cache="second") == {"config.json": 2}
        other = SNAPSHOT.format(repo="google/other", kind="model")
        assert client.run(offline.inside, other, cache="third")[0] == "RepositoryNotFoundError"
        assert offline.get("/api/models").json() == []
    assert len(hub.seen) == asked


def test_datasets_loads_a_table(hub: FakeHub, mirror: Mirror, client: Client) -> None:
    table = b"word,number\none,1\ntwo,2\n"
    hub.repos["datasets/google/words"] = Repo({"data/train.csv": table, "README.md": b"# Words\n"})
    program = """
from datasets import load_dataset
result = load_dataset("google/words", split="train").to_dict()
"""
    expected = {"word": ["one", "two"], "number": [1, 2]}
    assert client.run(mirror.inside, program) == expected
    with hub.gone():
        assert client.run(mirror.inside, program, cache="second") == expected
