"""States of models on the pages, and prompts: whose token asks, what is refused, and what is shown."""

from __future__ import annotations

from collections.abc import Iterator

import jwt
import pytest

from strata_bench.login_issuer import LoginIssuer, Window
from strata_bench.service_processes import Service

from .conftest import NAME, WEB_URL, StartHub
from .fake_hub import MODEL, UNLISTED, FakeHub, furnished, running_hub
from .fake_inference import PATH, FakeInference, envelope, running_inference
from .test_ml_hub_web import SETTINGS, text_of, visitor

SESSION, TOKEN = "__Host-strata-session", "__Host-strata-token"
PAGE = f"{WEB_URL}/models/{UNLISTED}"


@pytest.fixture(scope="module")
def fake_hub() -> Iterator[FakeHub]:
    with running_hub(furnished()) as hub:
        yield hub


@pytest.fixture(scope="module")
def server() -> Iterator[FakeInference]:
    with running_inference(FakeInference()) as running:
        yield running


@pytest.fixture
def fake(server: FakeInference) -> FakeInference:
    """The inference server, which was asked nothing yet."""
    server.states = {UNLISTED: {"state": "ready", "accelerator": "gpu"}}
    server.answers.clear()
    server.asked.clear()
    return server


@pytest.fixture(scope="module")
def site(
    start_hub: StartHub, hub_environment: dict[str, str], fake_hub: FakeHub, server: FakeInference
) -> Iterator[Service]:
    own = {"ML_HUB_HUB_ENDPOINT": fake_hub.url, "ML_HUB_INFERENCE_INTERNAL_URL": server.url}
    with start_hub({**hub_environment, **SETTINGS, **own}) as service:
        yield service


@pytest.fixture
def window(site: Service, issuer: LoginIssuer) -> Window:
    """Ada's, of research, which may ask one model of two."""
    return visitor(site, issuer, "research")


def test_a_prompt_is_asked_with_the_visitor_s_token(window: Window, fake: FakeInference, site: Service) -> None:
    answer = window.send(PAGE, {"prompt": "<b>zwei\r\nZeilen</b>"})
    assert answer.status_code == 200
    assert "&lt;B&gt;ZWEI\nZEILEN&lt;/B&gt;</pre>" in answer.text
    assert "\n&lt;b&gt;zwei\r\nZeilen&lt;/b&gt;</textarea>" in answer.text, "the prompt is there to be changed"
    assert fake.prompts() == [(f"{PATH}/{UNLISTED}", "<b>zwei\nZeilen</b>")]
    tokens = {token for _, _, token, _ in fake.asked}
    claims = [jwt.decode(token, options={"verify_signature": False}) for token in tokens]
    assert [(token["sub"], token["groups"]) for token in claims] == [("1", ["/tenants/research"])]
    cookies = window.cookies[NAME]
    assert cookies.keys() == {SESSION, TOKEN}
    for token in tokens:
        assert token not in str(cookies), "the browser cannot read it"
        assert token not in site.log


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"state": "stopped"}, "Stopped on CPUs The next prompt starts it."),
        ({"state": "starting"}, "Starting on CPUs Prompts wait for it."),
        ({"state": "ready", "accelerator": "gpu"}, "Ready on a GPU"),
        ({"state": "failed", "reason": "no <free> GPU"}, "Does not start on CPUs no &lt;free&gt; GPU"),
    ],
    ids=["stopped", "starting", "ready", "failed"],
)
def test_the_state_of_a_model_is_shown(window: Window, fake: FakeInference, state: dict[str, str], words: str) -> None:
    fake.states = {UNLISTED: state}
    assert words in text_of(window.send(PAGE))
    assert f"{UNLISTED} {words.partition(' on ')[0]}" in text_of(window.send(f"{WEB_URL}/models"))


@pytest.mark.parametrize(
    ("refusal", "status", "words"),
    [
        (envelope(503, "research/words: no free GPU"), 503, "No answer: research/words: no free GPU"),
        (envelope(429, "more requests than the limit"), 429, "No answer: more requests than the limit"),
        (envelope(401, "the token has expired"), 401, "Log out, and log in again"),
        ((200, ["no envelope"]), 502, "answer is none"),
        ((200, {"result": "x" * 2_000_000}), 502, "too long for a page"),
    ],
    ids=["state", "limit", "expired", "strange", "huge"],
)
def test_a_refusal_is_shown_beside_the_prompt(
    window: Window, fake: FakeInference, refusal: tuple[int, object], status: int, words: str
) -> None:
    fake.answers["hello"] = refusal
    answer = window.send(PAGE, {"prompt": "hello"})
    assert (answer.status_code, 'role="alert"' in answer.text) == (status, True)
    assert words in text_of(answer)
    assert "\nhello</textarea>" in answer.text
    assert 'id="answer"' not in answer.text


@pytest.mark.parametrize(("prompt", "words"), [("  \n", "Write a prompt."), ("x" * 20_001, "20,001 characters")])
def test_a_prompt_that_cannot_be_asks_nothing(window: Window, fake: FakeInference, prompt: str, words: str) -> None:
    answer = window.send(PAGE, {"prompt": prompt})
    assert (answer.status_code, words in text_of(answer)) == (400, True)
    assert fake.prompts() == []


def test_a_model_of_another_project_is_not_asked(window: Window, fake: FakeInference) -> None:
    assert window.send(f"{WEB_URL}/models/{MODEL}", {"prompt": "hello"}).status_code == 404
    assert 'id="prompt"' not in window.send(f"{WEB_URL}/models/{MODEL}").text
    assert fake.asked == [], "no state of it either"


@pytest.mark.parametrize("origin", ["https://web1.pods.lab.strata.test", "null", ""])
def test_another_page_cannot_ask_in_a_visitor_s_name(window: Window, fake: FakeInference, origin: str) -> None:
    assert window.send(PAGE, {"prompt": "hello"}, Origin=origin).status_code == 403
    assert fake.prompts() == []


def test_the_token_of_another_user_is_not_used(
    window: Window, fake: FakeInference, site: Service, issuer: LoginIssuer
) -> None:
    theirs = dict(window.cookies[NAME])
    issuer.user = {"sub": "2", "preferred_username": "eve", "groups": ["/tenants/research"]}
    eve = Window(window.route)
    assert eve.open(f"{WEB_URL}/models")[1].status_code == 200
    eve.cookies[NAME][TOKEN] = theirs[TOKEN]
    fake.asked.clear()
    answer = eve.send(PAGE, {"prompt": "hello"})
    assert (answer.status_code, "Log out, and log in again" in answer.text) == (401, True)
    assert fake.asked == []
    # and it opens no page
    stranger = Window(window.route)
    assert stranger.send(PAGE, Cookie=f"{SESSION}={theirs[TOKEN]}; {TOKEN}={theirs[TOKEN]}").status_code == 303


def test_a_token_that_no_cookie_has_room_for_leaves_the_pages(
    fake: FakeInference, site: Service, issuer: LoginIssuer
) -> None:
    many = [f"project-{number}-with-a-long-name" for number in range(80)]
    window = visitor(site, issuer, "research")
    issuer.user = {**issuer.user, "department": ",".join(many)}
    again = Window(window.route)
    answer = again.open(PAGE)[1]
    assert (answer.status_code, set(again.cookies[NAME])) == (200, {SESSION})
    assert "Unknown" in text_of(answer)
    assert again.send(PAGE, {"prompt": "hello"}).status_code == 401
    assert site.logged(event="access token is too long for a cookie")


def test_a_logout_takes_the_token_away(window: Window) -> None:
    window.send(f"{WEB_URL}/.logout", {})
    assert not window.cookies[NAME]


def test_pages_are_shown_while_the_inference_server_is_away(
    start_hub: StartHub, hub_environment: dict[str, str], fake_hub: FakeHub, issuer: LoginIssuer
) -> None:
    own = {"ML_HUB_HUB_ENDPOINT": fake_hub.url, "ML_HUB_INFERENCE_INTERNAL_URL": "http://127.0.0.1:1"}
    with start_hub({**hub_environment, **SETTINGS, **own}) as service:
        window = visitor(service, issuer, "research")
        page, answer = window.send(PAGE), window.send(PAGE, {"prompt": "hello"})
    assert (page.status_code, "Unknown" in text_of(page)) == (200, True)
    assert (answer.status_code, "does not respond; try again" in answer.text) == (503, True)
