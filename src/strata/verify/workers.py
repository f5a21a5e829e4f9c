"""pytest plugin of a run of the checks, in each of its processes: what stays together, and what each check claims."""

from __future__ import annotations

import pytest

ACCELERATORS = "accelerators"
"""The group of checks that take an accelerator."""
CLAIM = "claim"
"""The property of a report that has the check's claim."""


def claim(item: pytest.Item) -> str:
    """The first line of a check's docstring, with its parameters."""
    text = getattr(getattr(item, "obj", None), "__doc__", None) or item.name.removeprefix("test_").replace("_", " ")
    parameter = f" [{item.callspec.id}]" if hasattr(item, "callspec") else ""
    return str(text).strip().splitlines()[0] + parameter


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The checks of a file run one after the other, unless a mark `xdist_group` takes some out of it: those that wait
    long for a state, and those that take an accelerator, of which a site may have only one. These begin."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
    for item in items:
        item.user_properties.append((CLAIM, claim(item)))
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
