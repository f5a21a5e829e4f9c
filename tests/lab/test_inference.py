"""A model that a member publishes to the hub of the site, and that unmodified clients start and ask."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from strata.access.https import load_balancer_address, trusted_authorities
from strata.catalogue.needs.api_path import api_url
from strata.drift.platform import objects_drift
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata_bench.services import locked_programs
from strata_bench.tapis_client import HOSTS
from strata_services.hub_mirror.service import SERVICE as HUB
from strata_services.inference.service import SERVICE

from .test_pods import Member, ada, member

pytestmark = pytest.mark.nightly
__all__ = ["ada", "member"]  # fixtures
CLIENTS = REPOSITORY / "services/inference/images/model-server"
MODEL = "research/tiny-t5"
SECONDS = 600
TOKEN = "print(json.dumps({'token': t.access_token.access_token}))\n"
PUBLISH = """
import json, os, pathlib, tempfile
import numpy
from huggingface_hub import HfApi
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

directory = pathlib.Path(tempfile.mkdtemp())
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
hub = HfApi(endpoint=os.environ["HUB"], token=os.environ["TOKEN"])
hub.create_repo(os.environ["MODEL"], exist_ok=True)
hub.upload_folder(repo_id=os.environ["MODEL"], folder_path=directory)
print(json.dumps({"files": sorted(hub.list_repo_files(os.environ["MODEL"]))}))
"""
ASK = """
import json, os, time
import httpx2, openai
from huggingface_hub import InferenceClient

url, token, model = os.environ["INFERENCE"], os.environ["TOKEN"], os.environ["MODEL"]
client = openai.OpenAI(base_url=f"{url}/v1", api_key=token, timeout=300)
deadline = time.monotonic() + 300
while True:
    try:
        first = client.completions.create(model=model, prompt="the fox", max_tokens=5)
        break
    except openai.APIStatusError as error:
        # one that failed before it was published is started again by Kubernetes
        assert error.status_code == 503 and time.monotonic() < deadline, error.response.text
        time.sleep(5)
chunks = list(client.chat.completions.create(
    model=model, messages=[{"role": "user", "content": "the fox"}], max_tokens=5, stream=True))
headers = {"X-Tapis-Token": token}
tapis = f"{os.environ['API']}/v3/ml-hub"
listed = httpx2.get(f"{tapis}/inference", headers=headers, timeout=60).json()["result"]
told = httpx2.get(f"{tapis}/models/{model}/inference", headers=headers, timeout=60).json()["result"]
asked = httpx2.post(told["inference_endpoint"], json={"prompt": "the fox"}, headers=headers, timeout=300)
print(json.dumps({
    "models": [one.id for one in client.models.list()],
    "tokens": first.usage.completion_tokens,
    "chunks": len(chunks) > 1,
    "generated": bool(InferenceClient(model=f"{url}/models/{model}", token=token).text_generation("the fox")),
    "listed": model in listed["available_models"],
    "state": [one["state"] for one in listed["models"] if one["model_id"] == model],
    "asked": [asked.status_code, asked.json()["status"], bool(asked.json()["result"])],
    "stranger": httpx2.post(f"{url}/v1/completions", json={"model": model, "prompt": "x"}, timeout=60).status_code,
}))
"""
REFUSED = """
import json, os, openai
client = openai.OpenAI(base_url=f"{os.environ['INFERENCE']}/v1", api_key=os.environ["TOKEN"])
found = {"models": [one.id for one in client.models.list()]}
try:
    client.completions.create(model=os.environ["MODEL"], prompt="x")
except openai.APIStatusError as error:
    found["status"] = error.status_code
print(json.dumps(found))
"""


@pytest.fixture
def run(context: SiteContext) -> Callable[[str, Member], dict[str, Any]]:
    """`run(ASK, member)`: what a program with openai and huggingface_hub prints, with a token of the member."""
    site = context.site
    settings, hub = SERVICE.of(site), HUB.of(site)
    if settings is None or hub is None or MODEL not in [model.id for model in settings.models]:
        pytest.skip(f"site {site.name} has no model {MODEL} in platform.services.inference")
    ca, address = trusted_authorities(context), load_balancer_address(context)
    urls = {"INFERENCE": f"https://{settings.hostname}.{site.domain}", "HUB": f"https://{hub.hostname}.{site.domain}"}
    urls["API"] = api_url(site)
    python = locked_programs(CLIENTS, "--no-dev", "--inexact", "--group", "clients") / "python"

    def of(script: str, who: Member) -> dict[str, Any]:
        hosts = {url.removeprefix("https://"): address for url in urls.values()}
        environment = {"HOSTS": json.dumps(hosts), "SSL_CERT_FILE": str(ca), "NO_PROXY": "*", **urls, "MODEL": MODEL}
        environment |= {"TOKEN": who.run(TOKEN)["token"], "HF_ENDPOINT": urls["HUB"], "HF_HUB_DISABLE_XET": "1"}
        done = subprocess.run(
            [str(python), "-"],
            input=HOSTS + script,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return of


def test_a_published_model_is_asked(
    run: Callable[[str, Member], dict[str, Any]], member: Callable[[str], Member], ada: Member, context: SiteContext
) -> None:
    assert "model.safetensors" in run(PUBLISH, ada)["files"]
    assert run(ASK, ada) == {
        "models": [MODEL],
        "tokens": 5,
        "chunks": True,
        "generated": True,
        "listed": True,
        "state": ["ready"],
        "asked": [200, "success", True],
        "stranger": 401,
    }
    # a model that runs is no drift, which the next `up` would stop
    assert [str(one) for one in objects_drift(context) if SERVICE.name in one.object] == []
    assert run(REFUSED, member("teaching")) == {"models": [], "status": 404}
