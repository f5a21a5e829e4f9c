"""docs/first-model.md as written, by the unmodified huggingface_hub, openai and tapipy."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strata.catalogue.needs import Hostname
from strata.catalogue.site_services import needed
from strata.drift.platform import objects_drift
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata_bench.services import locked_programs
from strata_bench.tapis_client import documented_lines, tapipy_python
from strata_services.inference.service import SERVICE

from .test_pods import CLIENT_LINES, Member, ada, member

pytestmark = pytest.mark.nightly
__all__ = ["ada", "member"]  # fixtures
SERVERS = REPOSITORY / "services/inference/images/model-server"
MODEL = "research/tiny-t5"
MODEL_PODS = "app.kubernetes.io/name=inference-model"
MAKE = """
import json, os, pathlib
import numpy
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

directory = pathlib.Path(os.environ["FOLDER"])
own = Tokenizer(models.BPE(unk_token=None))
own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
own.decoder = decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
own.train_from_iterator(["the quick brown fox"], trainers.BpeTrainer(
    vocab_size=300, special_tokens=["<pad>", "</s>"], initial_alphabet=alphabet, show_progress=False))
own.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
own.save(str(directory / "tokenizer.json"))
size, width, inner, heads = own.get_vocab_size(), 32, 64, 2
files = {
    "config.json": {
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": size, "d_model": width,
        "d_kv": width // heads, "num_heads": heads, "d_ff": inner, "num_layers": 1, "num_decoder_layers": 1,
        "feed_forward_proj": "relu", "is_encoder_decoder": True, "tie_word_embeddings": False, "pad_token_id": 0,
        "eos_token_id": 1, "decoder_start_token_id": 0},
    "generation_config.json": {
        "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "suppress_tokens": [0, 1]},
    "tokenizer_config.json": {
        "tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>",
        "model_max_length": 128},
}
for name, content in files.items():
    (directory / name).write_text(json.dumps(content))
chance = numpy.random.default_rng(0)
weights = {}

def matrix(name, rows, columns):
    weights[name] = chance.normal(0, 0.3, (rows, columns)).astype("float32")

def norm(name):
    weights[name] = numpy.ones(width, "float32")

matrix("shared.weight", size, width)
matrix("lm_head.weight", size, width)
for part, attentions in (("encoder", ["SelfAttention"]), ("decoder", ["SelfAttention", "EncDecAttention"])):
    layer = f"{part}.block.0.layer"
    for number, attention in enumerate(attentions):
        for letter in "qkvo":
            matrix(f"{layer}.{number}.{attention}.{letter}.weight", width, width)
        norm(f"{layer}.{number}.layer_norm.weight")
    matrix(f"{layer}.0.SelfAttention.relative_attention_bias.weight", 32, heads)
    matrix(f"{layer}.{len(attentions)}.DenseReluDense.wi.weight", inner, width)
    matrix(f"{layer}.{len(attentions)}.DenseReluDense.wo.weight", width, inner)
    norm(f"{layer}.{len(attentions)}.layer_norm.weight")
    norm(f"{part}.final_layer_norm.weight")
save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
"""
REFUSED = """
import openai
token = t.access_token.access_token
os.environ["SSL_CERT_FILE"] = os.environ["STRATA_CA_FILE"]
client = openai.OpenAI(base_url=os.environ["INFERENCE"], api_key=token)
output = {"models": [model.id for model in client.models.list()]}
try:
    client.completions.create(model=os.environ["MODEL"], prompt="x")
except openai.APIStatusError as error:
    output["status"] = error.status_code
print(json.dumps(output))
"""


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A tiny T5 with random weights, as `save_pretrained` writes models."""
    python = locked_programs(SERVERS, "--no-dev", "--inexact", "--group", "clients") / "python"
    folder = tmp_path / "model"
    folder.mkdir()
    subprocess.run([str(python), "-c", MAKE], env={"FOLDER": str(folder)}, check=True, timeout=120)
    return folder


@pytest.fixture
def room(kubectl: Callable[..., str]) -> Iterator[None]:
    """Stops the models in the end: the worker has no CPU left for the pods of other tests while one runs."""
    yield
    kubectl("--namespace=strata-system", "scale", "deployment", f"--selector={MODEL_PODS}", "--replicas=0")


@pytest.mark.usefixtures("room")
def test_the_documented_program_runs(
    context: SiteContext, ada: Member, member: Callable[[str], Member], model_folder: Path, tmp_path: Path
) -> None:
    site = context.site
    settings = SERVICE.of(site)
    if settings is None or MODEL not in [model.id for model in settings.models]:
        pytest.skip(f"site {site.name} has no model {MODEL} in platform.services.inference")
    tapipy_python("models")
    names = [need.host(site) for _, need in needed(site, Hostname)]
    program = documented_lines("api.md") + documented_lines("first-model.md")
    program = program.replace("<domain>", site.domain).replace("research/keywords", MODEL)
    printed = ada.program(program, names, FOLDER=str(model_folder), HF_HOME=str(tmp_path), PATH=os.environ["PATH"])
    files = sorted(path.name for path in model_folder.iterdir())
    for line in (
        ada.name,
        "models: ",
        " google/flan-t5-large ",
        "datasets: ",
        "tasks: ",
        "\n".join([f"downloaded {len(files)} files"] * 2),
        f"you may ask {MODEL}\ntokens 5\nchunk ''\nchunk ",
        "\ngenerated ",
        f"Tapis: success {MODEL} is ready",
        "use 200 [",
    ):
        assert line in printed, printed
    published = next(line for line in printed.splitlines() if line.startswith("published "))
    assert set(files) <= set(published.split())
    assert printed.endswith("left False\n"), printed
    # a model that runs is not drift, which the next `up` would stop
    assert [str(drift) for drift in objects_drift(context) if SERVICE.name in drift.object] == []
    stranger = member("teaching")
    variables = {"INFERENCE": f"https://{settings.hostname}.{site.domain}/v1", "MODEL": MODEL}
    printed = stranger.program(CLIENT_LINES + REFUSED, names, **variables)
    assert json.loads(printed) == {"models": [], "status": 404}
