"""Attempts are as many as the pauses between them, and one."""

from __future__ import annotations

import pytest

from strata.retry import attempts


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each pause was."""
    pauses: list[float] = []
    monkeypatch.setattr("strata.retry.time.sleep", pauses.append)
    return pauses


def test_the_last_attempt_is_reported_and_no_pause_follows_it(slept: list[float]) -> None:
    assert list(attempts((1.0, 2.0))) == [False, False, True]
    assert slept == [1.0, 2.0]
    assert list(attempts(())) == [True]


def test_success_ends_the_pauses(slept: list[float]) -> None:
    for number, _last in enumerate(attempts((1.0, 2.0))):
        if number == 1:
            break
    assert slept == [1.0]
