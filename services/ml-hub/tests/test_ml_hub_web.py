"""The pages: what users find there, what a card cannot do, and what is at their name beside them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from strata_bench.login_issuer import LoginIssuer, Window
from strata_bench.service_processes import Service
from strata_bench.services import PostgreSQL, ServiceCommands

from .conftest import NAME, WEB_URL, StartHub
from .fake_hub import DATASET, MODEL, SHA, UNLISTED, FakeHub, furnished, json_answer, running_hub, text_answer

HUB = "https://hub.lab.strata.test"
SERVED = "our-group/tiny-t5"
SETTINGS = {
    "ML_HUB_LOGOUT_URL": "https://login.lab.strata.test/logout",
    "ML_HUB_HUB_PUBLIC_URL": HUB,
    "ML_HUB_HUB_PAUSE_SECONDS": "0",
    "ML_HUB_INFERENCE_URL": "https://api.lab.strata.test/v3/ml-hub/inference",
    "ML_HUB_OPENAI_URL": "https://inference.lab.strata.test/v1",
    "ML_HUB_INFERENCE_MODELS": json.dumps({SERVED: ["research"], MODEL: ["teaching"]}),
    "ML_HUB_API_LOGIN_URL": "https://api.lab.strata.test/v3/oauth2/tokens",
    "ML_HUB_TOKEN_PAGE_URL": "https://tokens.lab.strata.test/",
}
TREE = [
    {"type": "directory", "path": "onnx", "size": 0},
    {"type": "file", "path": "config.json", "size": 1482},
    {"type": "file", "path": "model.safetensors", "size": 3_132_668_800},
    {"type": "file", "path": "../../secrets", "size": 1},
    {"type": "file", "path": "README.md", "size": "many"},
    "no entry",
]


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeHub]:
    with running_hub(furnished()) as hub:
        hub.answers[f"/api/models/{MODEL}/tree/main?recursive=true"] = json_answer(TREE)
        yield hub


@pytest.fixture(scope="module")
def site(start_hub: StartHub, hub_environment: dict[str, str], fake: FakeHub) -> Iterator[Service]:
    """The service at a site with a mirror, an inference server and a login of the API."""
    with start_hub({**hub_environment, **SETTINGS, "ML_HUB_HUB_ENDPOINT": fake.url}) as service:
        yield service


@pytest.fixture(autouse=True)
def nothing_stored(postgresql: PostgreSQL, hub_environment: dict[str, str]) -> None:
    """Nothing of the hub is stored."""
    postgresql.sql("DELETE FROM fetched", hub_environment["ML_HUB_DATABASE_NAME"])


def visitor(service: Service, issuer: LoginIssuer, *tenants: str) -> Window:
    """A browser with a session of a member of tenants."""
    issuer.user = {"sub": "1", "preferred_username": "ada", "groups": [f"/tenants/{tenant}" for tenant in tenants]}

    def route(url: str) -> tuple[str, dict[str, str]]:
        return (url.replace(WEB_URL, service.url), {"Host": NAME}) if url.startswith(WEB_URL) else (url, {})

    window = Window(route)
    url, answer = window.open(f"{WEB_URL}/")
    assert (url, answer.status_code) == (f"{WEB_URL}/models", 200)
    return window


@pytest.fixture
def window(site: Service, issuer: LoginIssuer) -> Window:
    """Ada's, of research."""
    return visitor(site, issuer, "research")


def text_of(answer: requests.Response) -> str:
    """Words of a page, without tags."""
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", answer.text))


def named(answer: requests.Response, kind: str = "models") -> list[str]:
    """Ids in a list."""
    assert answer.status_code == 200, answer.text
    return re.findall(rf'data-title="Name"><a href="/{kind}/([^"]+)"', answer.text)


def lines(answer: requests.Response, snippet: str) -> str:
    """What a Copy button copies."""
    match = re.search(rf'<pre id="{snippet}"[^>]*>(.*?)</pre>', answer.text, re.DOTALL)
    assert match is not None, f"no {snippet}"
    assert f'data-copy="{snippet}"' in answer.text
    return re.sub("&#(3[49]);", lambda code: chr(int(code[1])), match[1]).replace("&lt;", "<").replace("&gt;", ">")


def test_lists_are_the_api_s_and_go_on(
    window: Window, catalogue: list[dict[str, Any]], datasets: list[dict[str, Any]]
) -> None:
    first = window.send(f"{WEB_URL}/models?limit=2")
    assert named(first) == [record["id"] for record in catalogue[:2]]
    (following,) = re.findall(r'id="next" class="button" href="([^"]+)"', first.text)
    # the number of entries is not a field of the form, so the next page has as many as there are
    assert named(window.send(WEB_URL + following.replace("&amp;", "&")))[:3] == [
        model["id"] for model in catalogue[2:5]
    ]
    assert named(window.send(f"{WEB_URL}/datasets"), "datasets")[0] == datasets[0]["id"]


def test_the_form_narrows_and_empty_fields_do_not(window: Window, catalogue: list[dict[str, Any]]) -> None:
    author, task = catalogue[0]["author"], catalogue[0]["pipeline_tag"]
    both = [model["id"] for model in catalogue if (model["author"], model["pipeline_tag"]) == (author, task)][:100]
    assert named(window.send(f"{WEB_URL}/models?search=&author=+{author}+&task={task}&library=")) == both
    everything = named(window.send(f"{WEB_URL}/models"))
    assert named(window.send(f"{WEB_URL}/models?search=&author=&task=&library=")) == everything
    part = window.send(f"{WEB_URL}/models?task={task}&limit=1")
    assert f"task={task}&amp;cursor=" in part.text, "the next page keeps the choice"
    assert f'value="{task}"' in part.text


def test_what_is_not_found_shows_how_to_publish(window: Window) -> None:
    none = window.send(f"{WEB_URL}/models?search=research/keywords")
    assert named(none) == []
    assert "The list has none like that." in none.text
    assert f"export HF_ENDPOINT={HUB} HF_HUB_DISABLE_XET=1\nhf upload PROJECT/NAME FOLDER" in none.text
    assert '<a id="named" href="/models/research/keywords">' in none.text
    assert "hf upload --repo-type dataset PROJECT/NAME" in window.send(f"{WEB_URL}/datasets?search=nothing").text
    assert 'id="named"' not in window.send(f"{WEB_URL}/models?search=../..").text


@pytest.mark.parametrize(
    "query", ["cursor=x", "limit=0", "search=a%00b", f"author={'a' * 300}"], ids=["cursor", "limit", "NUL", "long"]
)
def test_values_that_cannot_be_are_refused_on_a_page(window: Window, query: str) -> None:
    answer = window.send(f"{WEB_URL}/models?{query}")
    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "text/html; charset=utf-8")


def test_a_model_has_its_card_its_files_and_how_to_load_it(window: Window) -> None:
    page = window.send(f"{WEB_URL}/models/{MODEL}")
    words = text_of(page)
    assert page.status_code == 200
    for expected in (f"<h1>{MODEL}</h1>", "<h3>FLAN-T5 large</h3>", "<p>Instruct it.</p>", SHA):
        assert expected in page.text
    assert "language: [en]" not in page.text, "the card's metadata"
    assert "5 files" in words
    assert "config.json 1.4 KiB" in words
    assert "model.safetensors 2.9 GiB" in words
    assert "README.md – " in words, "a size that is not a number"
    assert "secrets" not in words
    assert lines(page, "use-shell") == f"export HF_ENDPOINT=${{HF_ENDPOINT:-{HUB}}}\nhf download {MODEL}"
    assert f'AutoModelForSeq2SeqLM.from_pretrained("{MODEL}")' in lines(page, "use-transformers")
    assert "ask-openai" not in page.text, "the site serves it for another project"
    assert '<a href="https://tokens.lab.strata.test/">' in page.text
    assert "Search the list for its name" in text_of(window.send(f"{WEB_URL}/models/nobody/none"))
    assert window.send(f"{WEB_URL}/models/nobody/none").status_code == 404


def test_a_dataset_has_the_lines_for_datasets(window: Window) -> None:
    page = window.send(f"{WEB_URL}/datasets/{DATASET}")
    assert "<h3>GSM8K</h3>" in page.text
    assert lines(page, "use-datasets").endswith(f'load_dataset("{DATASET}")')
    assert lines(page, "use-shell").endswith(f"hf download {DATASET} --repo-type dataset")


def test_who_may_ask_a_model_reads_how(window: Window, site: Service, issuer: LoginIssuer) -> None:
    listed = window.send(f"{WEB_URL}/models").text
    assert re.findall(r'id="served-\d+" href="/models/([^"]+)"', listed) == [SERVED]
    page = window.send(f"{WEB_URL}/models/{SERVED}")
    assert 'base_url="https://inference.lab.strata.test/v1"' in lines(page, "ask-openai")
    assert f'completions.create(model="{SERVED}", prompt=' in lines(page, "ask-openai")
    assert "https://inference.lab.strata.test/v1/completions" in lines(page, "ask-curl")
    other = visitor(site, issuer, "teaching")
    assert "ask-openai" not in other.send(f"{WEB_URL}/models/{SERVED}").text
    assert "ask-openai" in other.send(f"{WEB_URL}/models/{MODEL}").text
    assert "that this site runs for you" not in visitor(site, issuer).send(f"{WEB_URL}/models").text


def test_what_is_copied_is_python_and_shell(site: Service, issuer: LoginIssuer) -> None:
    page = visitor(site, issuer, "teaching").send(f"{WEB_URL}/models/{MODEL}")
    for snippet in ("use-hub", "use-transformers", "ask-openai"):
        compile(lines(page, snippet), snippet, "exec")
    for snippet in ("use-shell", "use-token", "ask-curl"):
        done = subprocess.run(["bash", "-n"], input=lines(page, snippet), text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), snippet
    assert "export TOKEN HF_TOKEN=$TOKEN" in lines(page, "use-token")


CARD = """
# Title <script>alert(1)</script>

<img src=x onerror=alert(1)> <b>bold</b>

<div onclick="alert(1)">

[bad](javascript:alert(1)) [data](data:text/html,x) [relative](../../.logout) [good](https://example.org/"onclick=a)
![spy](https://spy.example.org/pixel.png) <javascript:alert(1)> [ref]

[ref]: vbscript:alert(1) "title"

| a | b |
|---|---|
| 1 | ~~2~~ |

```html"><script>alert(2)</script>
<script>alert(3)</script>
```
"""


def test_a_card_is_never_markup(window: Window, fake: FakeHub) -> None:
    fake.answers[f"/{UNLISTED}/resolve/main/README.md"] = text_answer(CARD)
    try:
        page = window.send(f"{WEB_URL}/models/{UNLISTED}")
    finally:
        del fake.answers[f"/{UNLISTED}/resolve/main/README.md"]
    card = page.text.partition('<div class="card prose">')[2].partition("</div>\n<h2")[0]
    tags = set(re.findall(r"<(\w+)([^>]*)>", card))
    assert {name for name, _ in tags} == {
        "h3", "p", "a", "table", "thead", "tbody", "tr", "th", "td", "s", "pre", "code",
    }  # fmt: skip
    assert {name for _, attributes in tags for name in re.findall(r' ([\w-]+)="', attributes)} <= {
        "href",
        "rel",
        "class",
    }
    assert re.findall('href="([^"]*)" rel="([^"]*)"', card) == [
        ("https://example.org/%22onclick=a", "noopener noreferrer nofollow")
    ]
    assert "spy.example.org" not in card
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in card


def test_a_card_is_cut_where_it_is_too_long(window: Window, fake: FakeHub) -> None:
    fake.answers[f"/{UNLISTED}/resolve/main/README.md"] = text_answer("word " * 30_000 + "end")
    try:
        page = window.send(f"{WEB_URL}/models/{UNLISTED}")
    finally:
        del fake.answers[f"/{UNLISTED}/resolve/main/README.md"]
    assert "word …" in page.text or "<p>…</p>" in page.text
    assert "end</p>" not in page.text


def test_the_pages_work_without_the_hub(window: Window, fake: FakeHub) -> None:
    fake.down.set()
    try:
        page = window.send(f"{WEB_URL}/models/{MODEL}")
        unknown = window.send(f"{WEB_URL}/models/{UNLISTED}")
    finally:
        fake.down.clear()
    assert "The hub does not respond" in page.text
    assert "text2text-generation" in page.text
    assert (unknown.status_code, "the hub does not respond" in unknown.text) == (503, True)


def test_a_site_with_a_catalogue_alone_has_pages_too(
    start_hub: StartHub, hub_environment: dict[str, str], issuer: LoginIssuer
) -> None:
    with start_hub(hub_environment) as service:
        window = visitor(service, issuer, "research")
        page = window.send(f"{WEB_URL}/models/{MODEL}")
        empty = window.send(f"{WEB_URL}/models?search=nothing")
    assert "this site has no hub" in page.text
    for absent in ("use-shell", "use-token", "ask-openai"):
        assert absent not in page.text
    assert "hf upload" not in empty.text


def test_names_of_a_catalogue_are_not_commands(
    start_hub: StartHub,
    postgresql: PostgreSQL,
    run_hub: ServiceCommands,
    fake: FakeHub,
    issuer: LoginIssuer,
    tmp_path: Path,
) -> None:
    name = '"; rm -rf ~; <script>'
    environment = postgresql.create_database("ml_hub_names", "ML_HUB")
    (tmp_path / "catalogue.json").write_text(json.dumps([{"id": name, "author": '"><script>'}]))
    for arguments in (["migrate"], ["load", "--file", str(tmp_path / "catalogue.json")]):
        done = run_hub(environment, *arguments)
        assert done.returncode == 0, done.stderr
    with start_hub({**environment, **SETTINGS, "ML_HUB_HUB_ENDPOINT": fake.url}) as service:
        window = visitor(service, issuer, "research")
        (link,) = named(window.send(f"{WEB_URL}/models"))
        asked = len(fake.asked)
        page = window.send(f"{WEB_URL}/models/{link}")
    assert (page.status_code, "use-shell" in page.text, "<script>" in page.text) == (200, False, False)
    assert len(fake.asked) == asked, "no hub can have it"


@pytest.mark.parametrize("path", ["/", "/models", "/datasets", f"/models/{MODEL}", f"/datasets/{DATASET}"])
def test_every_page_needs_a_session(site: Service, issuer: LoginIssuer, path: str) -> None:
    headers = {"Host": NAME, "Authorization": f"Bearer {issuer.token()}"}
    answer = requests.get(f"{site.url}{path}", headers=headers, allow_redirects=False, timeout=60)
    assert (answer.status_code, answer.headers["Location"].startswith(f"{issuer.url}/authorize?")) == (303, True)


def test_the_api_at_the_name_of_the_pages_takes_tokens_and_no_session(
    site: Service, window: Window, issuer: LoginIssuer
) -> None:
    token = {"Host": NAME, "X-Tapis-Token": issuer.token()}
    response = requests.get(f"{site.url}/v3/ml-hub/models?limit=1", headers=token, timeout=60)
    assert (response.status_code, response.json()["status"]) == (200, "success")
    refused = window.send(f"{WEB_URL}/v3/ml-hub/models")
    assert (refused.status_code, refused.json()["status"]) == (401, "error")
    for path, status in (("/readyz", 200), ("/healthz", 200), ("/v3/ml-hub/openapi.json", 200), ("/v3/ml-hub", 404)):
        answer = requests.get(site.url + path, headers=token, timeout=60)
        assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/json"), path
    assert window.send(f"{WEB_URL}/v3/ml-hubs").headers["Content-Type"] == "text/html; charset=utf-8"
    assert requests.get(f"{site.url}/models", headers={"Host": "api.lab.strata.test"}, timeout=60).status_code == 404
