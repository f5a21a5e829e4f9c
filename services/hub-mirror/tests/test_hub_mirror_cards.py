"""What cards of tenants' repositories say of them, by unmodified huggingface_hub."""

from __future__ import annotations

from typing import Any

from .conftest import Client, Mirror
from .fake_hub import FakeHub
from .test_hub_mirror_publishing import commit, create, file

PUBLISH = """
from huggingface_hub import DatasetCardData, HfApi, ModelCard, ModelCardData, metadata_update
api = HfApi()
api.create_repo("hep/keywords")
card = ModelCardData(
    language=["en", "no"], license="mit", library_name="transformers", pipeline_tag="text2text-generation",
    tags=["keywords"], datasets=["hep/papers"],
)
ModelCard.from_template(card, template_str="---\\n{{ card_data }}\\n---\\n# Keywords").push_to_hub("hep/keywords")
first = api.model_info("hep/keywords")
metadata_update("hep/keywords", {"pipeline_tag": "summarization"}, overwrite=True)
last = api.model_info("hep/keywords")
listed = [(one.pipeline_tag, one.library_name) for one in api.list_models(author="hep")]
api.delete_file("README.md", "hep/keywords")
result = {
    "data": first.card_data.to_dict(), "task": first.pipeline_tag, "library": first.library_name, "tags": first.tags,
    "last": last.pipeline_tag, "before": api.model_info("hep/keywords", revision=first.sha).pipeline_tag,
    "listed": listed, "without": [api.model_info("hep/keywords").pipeline_tag, api.model_info("hep/keywords").tags],
}
api.create_repo("hep/papers", repo_type="dataset")
card = DatasetCardData(language="en", task_categories=["summarization"], size_categories=["1K<n<10K"])
content = f"---\\n{card}\\n---\\n# Papers"
api.upload_file(path_or_fileobj=content.encode(), path_in_repo="README.md", repo_id="hep/papers", repo_type="dataset")
result["dataset"] = sorted(api.dataset_info("hep/papers").tags)
"""


def test_cards_describe_their_repositories(hub: FakeHub, mirror: Mirror, client: Client) -> None:
    output = client.run(mirror.outside, PUBLISH, mirror.token("ada", "hep"))
    assert output == {
        "data": {
            "language": ["en", "no"],
            "license": "mit",
            "library_name": "transformers",
            "pipeline_tag": "text2text-generation",
            "tags": ["keywords"],
            "datasets": ["hep/papers"],
        },
        "task": "text2text-generation",
        "library": "transformers",
        "tags": [
            "keywords",
            "transformers",
            "text2text-generation",
            "en",
            "no",
            "license:mit",
            "dataset:hep/papers",
        ],
        "last": "summarization",
        "before": "text2text-generation",
        "listed": [["summarization", "transformers"]],
        "without": [None, []],
        "dataset": ["language:en", "size_categories:1K<n<10K", "task_categories:summarization"],
    }


CARDS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "unknown fields": ("---\nlicense: no\nunknown: x\n---\n", {"license": "no"}),
    "other values": ("---\nlicense: [mit, {a: b}]\nlanguage: {a: b}\n---\n", {"license": ["mit"]}),
    "aliases": ("---\nlicense: &a mit\ntags: [*a, *a]\n---\n", None),
    "objects": ("---\nlicense: !!python/object/apply:os.system [id]\n---\n", {"license": ["id"]}),
    "long": (f"---\nlicense: {'a' * 201}\nlanguage: en\n---\n", {"language": "en"}),
    "NUL": ('---\nlicense: "a\\0b"\nlanguage: en\n---\n', {"language": "en"}),
    "deep": (f"---\ntags: {'[' * 20_000}\n---\n", None),
    "no YAML": ("---\nlicense: [\n---\n", None),
    "no mapping": ("---\n- license\n---\n", None),
    "nothing": ("", None),
    "no end": ("---\nlicense: mit\n", None),
    "no beginning": ("text\n---\nlicense: mit\n---\n", None),
    "line ends": ("---\r\nlicense: mit\r\n---\r\n" + "x" * 200_000, {"license": "mit"}),
    "too long": ("---\n" + "# comment\n" * 10_000 + "license: mit\n---\n", None),
}


def test_cards_that_cannot_be_read_are_published(hub: FakeHub, mirror: Mirror) -> None:
    token = mirror.token("ada", "hep")
    assert create(mirror).status_code == 200
    for name, (text, expected) in CARDS.items():
        added = commit(mirror, "hep/keywords", file("README.md", text.encode()))
        assert added.status_code == 200, (name, added.text)
        assert mirror.get("/api/models/hep/keywords", token).json().get("cardData") == expected, name
