"""The pages in a real browser: by keyboard alone, at the width of a small telephone and of a desk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from strata_bench.browser import Browser
from strata_bench.keyboard import SECONDS, browser_at, check_page, press, reach, set_width, write
from strata_bench.login_issuer import LoginIssuer
from strata_bench.services import PostgreSQL
from strata_bench.waiting import eventually

from .conftest import NAME, WEB_URL, StartHub
from .fake_hub import DATASET, MODEL, FakeHub, furnished, json_answer, running_hub, text_answer
from .fake_inference import FakeInference, running_inference
from .test_ml_hub_web import SETTINGS, TREE

WIDTHS = {"narrow": 320, "wide": 1280}
LONG = "averylongwordthatnolinehasroomfor" * 8
CARD = f"# {LONG}\n\n{LONG} `{LONG}`\n\n|{'a long heading|' * 12}\n|{'---|' * 12}\n|{'cell|' * 12}\n\n    {LONG}\n"


@pytest.fixture
def window(
    start_hub: StartHub,
    hub_environment: dict[str, str],
    postgresql: PostgreSQL,
    issuer: LoginIssuer,
    tmp_path: Path,
) -> Iterator[Browser]:
    """Chromium; ada of the project teaching is known at the issuer."""
    postgresql.sql("DELETE FROM fetched", hub_environment["ML_HUB_DATABASE_NAME"])
    issuer.user = {"sub": "1", "preferred_username": "ada", "groups": ["/tenants/teaching"]}
    fake: FakeHub = furnished()
    fake.answers[f"/api/models/{MODEL}/tree/main?recursive=true"] = json_answer(TREE)
    fake.answers[f"/{MODEL}/resolve/main/README.md"] = text_answer(CARD)
    models = FakeInference(states={MODEL: {"state": "ready"}})
    with (
        running_hub(fake),
        running_inference(models),
        start_hub(
            {
                **hub_environment,
                **SETTINGS,
                "ML_HUB_HUB_ENDPOINT": fake.url,
                "ML_HUB_INFERENCE_INTERNAL_URL": models.url,
            }
        ) as service,
        browser_at(NAME, service.url, tmp_path) as opened,
    ):
        yield opened
    issuer.user = {}


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_from_the_search_to_the_lines_by_keyboard(window: Browser, width: int) -> None:
    set_width(window, width)
    window.driver.get(WEB_URL)
    assert window.driver.current_url == f"{WEB_URL}/models"
    assert MODEL in window.find("section", SECONDS).text
    check_page(window, "1-models", width)
    write(window, "search", "flan t5")
    press(window, "Search", "Models – Models and datasets")
    eventually(lambda: "search=flan" in window.driver.current_url, SECONDS, "the form is sent")
    check_page(window, "2-found", width)
    press(window, MODEL, f"{MODEL} – Models and datasets")
    check_page(window, "3-model", width)
    write(window, "prompt", LONG)
    reach(window, "send")
    ActionChains(window.driver).send_keys(Keys.ENTER).perform()
    assert window.find("#answer", SECONDS).text == LONG.upper()
    assert "Ready" in window.find("#state", SECONDS).text
    check_page(window, "3-answer", width)
    reach(window, "Copy the lines for openai")
    ActionChains(window.driver).send_keys(Keys.ENTER).perform()
    eventually(lambda: window.run("return document.activeElement.textContent") == "Copied", SECONDS, "it is copied")
    # a keyboard scrolls what is wider than the window
    reach(window, "use-hub")
    assert "snapshot_download" in window.find("#use-hub", SECONDS).text
    press(window, "Datasets", "Datasets – Models and datasets")
    check_page(window, "4-datasets", width)
    reach(window, "more")
    ActionChains(window.driver).send_keys(Keys.ENTER).perform()
    write(window, "author", "nobody")
    reach(window, "Search")
    ActionChains(window.driver).send_keys(Keys.ENTER).perform()
    assert "none like that" in window.find("[role=status]", SECONDS).text
    assert window.find("#publish", SECONDS)
    check_page(window, "5-none", width)
    press(window, "all", "Datasets – Models and datasets")
    eventually(lambda: "author" not in window.driver.current_url, SECONDS, "all are shown")
    press(window, DATASET, f"{DATASET} – Models and datasets")
    check_page(window, "6-dataset", width)
