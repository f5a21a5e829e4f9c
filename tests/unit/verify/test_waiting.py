"""Checks read a state until it is complete."""

from __future__ import annotations

import pytest

from strata.verify.waiting import settled


def test_what_is_read_is_read_again_until_it_is_complete() -> None:
    answers = iter([[], [1], [1, 2]])
    assert settled(lambda: next(answers), lambda value: len(value) == 2, pause=0) == [1, 2]


def test_an_error_is_not_yet() -> None:
    answers = iter([0, 1])
    assert settled(lambda: 1 // next(answers), pause=0) == 1


def test_what_never_is_complete_is_shown() -> None:
    assert settled(lambda: "half", lambda value: value == "whole", seconds=0) == "half"


def test_an_error_that_stays_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        settled(lambda: 1 // 0, seconds=0)
