"""Lines that users copy to load a model or dataset, or to ask a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

from ml_hub.inference import auto_model
from ml_hub.repository import Repository
from ml_hub.settings import Settings

EMBEDDINGS = frozenset({"feature-extraction", "sentence-similarity"})
"""Tasks of models that give vectors."""
LABELS = "text-classification"
EXAMPLE = "Translate to German: My name is Arthur."
LOGIN = """\
read -rsp "Personal access token: " secret
TOKEN=$(printf 'grant_type=refresh_token&refresh_token=%s' "$secret" |
  curl --fail-with-body --silent --show-error --data @- {url} |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["result"]["access_token"]["access_token"])')
export {variables}"""
"""By commands of the shell itself, so that the list of processes does not show the secret."""


@dataclass(frozen=True)
class Snippet:
    """Lines to copy.

    Args:
        id: of the element with them.
        title: what they are for.
        text: of the lines.
    """

    id: str
    title: str
    text: str


@dataclass(frozen=True)
class Links:
    """Addresses of the site for users.

    Args:
        hub: of the hub, without a slash at its end; empty: there is none.
        mirrored: whether it is the site's, which needs a token from outside of the cluster.
        openai: of the inference server's API in OpenAI's form, without a slash at its end.
        login: of the API's login; empty: users have no token by it.
        token_page: where users create personal access tokens; may be empty.
    """

    hub: str
    mirrored: bool
    openai: str
    login: str
    token_page: str

    @classmethod
    def of(cls, settings: Settings, hub: str) -> Self:
        """Of a service.

        Args:
            settings: of the service.
            hub: its URL for users.
        """
        return cls(
            hub=hub,
            mirrored=settings.hub_public_url is not None,
            openai=str(settings.openai_url or "").rstrip("/"),
            login=str(settings.api_login_url or ""),
            token_page=str(settings.token_page_url or ""),
        )

    def token(self) -> list[Snippet]:
        """How to get a token in a shell; nothing where users have none by the API's login."""
        variables = "TOKEN HF_TOKEN=$TOKEN" if self.mirrored else "TOKEN"
        text = LOGIN.format(url=self.login, variables=variables)
        return [Snippet("use-token", "A token, in a shell", text)] if self.login else []


def loading(repo: Repository, links: Links) -> list[Snippet]:
    """How to load a model or dataset.

    Args:
        repo: whose name a hub accepts, so that it needs no quotes.
        links: of the site; with a hub.
    """
    before = f'import os\n\nos.environ.setdefault("HF_ENDPOINT", "{links.hub}")  # before the import\n\n'
    kind = "" if repo.kind == "models" else " --repo-type dataset"
    download = f"hf download {repo.id}{kind}"
    argument = "" if repo.kind == "models" else ', repo_type="dataset"'
    snippets = [
        # in notebooks and pods it is set to the address that needs no token
        Snippet("use-shell", "A shell", f"export HF_ENDPOINT=${{HF_ENDPOINT:-{links.hub}}}\n{download}"),
        Snippet(
            "use-hub",
            "huggingface_hub",
            f"{before}from huggingface_hub import snapshot_download\n\n"
            f'folder = snapshot_download("{repo.id}"{argument})',
        ),
    ]
    if repo.kind == "datasets":
        text = f'{before}from datasets import load_dataset\n\ndata = load_dataset("{repo.id}")'
        snippets.append(Snippet("use-datasets", "datasets", text))
    elif repo.entry["library_name"] == "sentence-transformers":
        text = f'from sentence_transformers import SentenceTransformer\n\nmodel = SentenceTransformer("{repo.id}")'
        snippets.append(Snippet("use-sentence-transformers", "sentence-transformers", before + text))
    elif (loader := auto_model(repo.entry)) is not None:
        text = (
            f"from transformers import AutoTokenizer, {loader}\n\n"
            f'tokenizer = AutoTokenizer.from_pretrained("{repo.id}")\nmodel = {loader}.from_pretrained("{repo.id}")'
        )
        snippets.append(Snippet("use-transformers", "transformers", before + text))
    return snippets


def asking(repo: Repository, links: Links) -> list[Snippet]:
    """How to ask a model that the site serves.

    Args:
        repo: named in site.yaml, whose check allows no characters that need quotes.
        links: of the site.
    """
    task = repo.entry["pipeline_tag"]
    if task == LABELS:
        url = links.openai.removesuffix("/v1")
        body = {"inputs": "How nice!"}
        return [Snippet("ask-curl", "curl", _curl(f"{url}/models/{repo.id}", body))]
    if task in EMBEDDINGS:
        call, field, shown, path = "embeddings", "input", "data[0].embedding", "embeddings"
    else:
        call, field, shown, path = "completions", "prompt", "choices[0].text", "completions"
    client = (
        f"import os\n\nfrom openai import OpenAI\n\n"
        f'client = OpenAI(base_url="{links.openai}", api_key=os.environ["TOKEN"])\n'
        f'answer = client.{call}.create(model="{repo.id}", {field}="{EXAMPLE}")\nprint(answer.{shown})'
    )
    body = {"model": repo.id, field: EXAMPLE}
    return [
        Snippet("ask-openai", "openai", client),
        Snippet("ask-curl", "curl", _curl(f"{links.openai}/{path}", body)),
    ]


def _curl(url: str, body: dict[str, str]) -> str:
    # the header by a file descriptor: the list of processes shows arguments
    header = '--header @<(echo "Authorization: Bearer $TOKEN")'
    return f"curl --fail-with-body {header} \\\n  --json '{json.dumps(body)}' \\\n  {url}"
