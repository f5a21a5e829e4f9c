"""The charts of other projects accept the values that Strata writes for every site of the repository.

What a chart accepts is recorded from its pinned version (README.md). The chart itself is rendered where it is
available: in the cache, or in the directory that STRATA_UPSTREAM_CHARTS names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from strata.platform.releases import Release, releases
from strata.site.paths import REPOSITORY
from strata.toolchain import charts, load_versions

from ...unit.platform.test_values import SITES, state_of
from .record import RECORDED

COMPLETE = {f"complete-{file.stem}": file for file in sorted((REPOSITORY / "tests/corpus/complete").glob("*.yaml"))}
ELSEWHERE = {"nvidia-device-plugin": "tests/contract/nvidia_device_plugin/chart_values.json"}
"""Recorded beside the tests of what its values mean."""
UNDESCRIBED = {
    "csi-driver-nfs": {"image.substitute", "storageClasses"},
    "traefik": {"ports.websecure.asDefault", "podSecurityContext.fsGroup", "podSecurityContext.seccompProfile"},
}
"""Values that the templates read and the schema or values.yaml does not have, or that are the substitute's."""
PINNED = load_versions().charts
HELM = Path(sys.executable).with_name("helm")
Values = dict[str, Any]


def recorded(chart: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RECORDED / f"{chart}.json").read_text())
    return content


@cache
def written() -> dict[str, tuple[Release, Values]]:
    """Site and chart to the release and its values, for every release of another project's chart."""
    values = {}
    for name, file in (SITES | COMPLETE).items():
        state = state_of(file)
        for release in releases(state.site):
            if release.chart in PINNED:
                values[f"{name}-{release.chart}"] = (release, json.loads(json.dumps(release.values(state))))
    return values


def unknown(values: Any, schema: Any, path: str = "") -> Iterator[str]:
    """Keys of values that a schema does not describe, where it describes any."""
    described = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(values, dict) or not described:
        return
    for key, value in values.items():
        if key in described:
            yield from unknown(value, described[key], f"{path}{key}.")
        elif "patternProperties" not in schema and schema.get("additionalProperties") in (None, False):
            yield f"{path}{key}"


def unnamed(values: Any, names: set[str], path: str = "") -> Iterator[str]:
    """Keys of values that the chart's values.yaml does not have, where it has any."""
    for key, value in values.items() if isinstance(values, dict) else ():
        here = f"{path}{key}"
        if here not in names:
            yield here
        elif any(name.startswith(f"{here}.") for name in names):
            yield from unnamed(value, names, f"{here}.")


@pytest.mark.parametrize("chart", sorted(PINNED))
def test_record_is_of_the_pinned_version(chart: str) -> None:
    file = REPOSITORY / ELSEWHERE[chart] if chart in ELSEWHERE else RECORDED / f"{chart}.json"
    assert json.loads(file.read_text())["version"] == PINNED[chart].version, f"record {chart} again: README.md"


def test_every_recorded_chart_has_a_site() -> None:
    assert {release.chart for release, _ in written().values()} == set(PINNED)


@pytest.mark.parametrize("case", sorted(written()))
def test_chart_accepts_the_values(case: str) -> None:
    release, values = written()[case]
    if release.chart in ELSEWHERE:
        return
    record = recorded(release.chart)
    if "schema" in record:
        # required keys are in the chart's defaults
        errors = jsonschema.Draft202012Validator(record["schema"]).iter_errors(values)
        assert not [error.message for error in errors if error.validator != "required"]
        assert set(unknown(values, record["schema"])) <= UNDESCRIBED.get(release.chart, set())
    else:
        assert set(unnamed(values, set(record["names"]))) <= UNDESCRIBED.get(release.chart, set())


def directory(chart: str) -> Path | None:
    """The project's chart on this machine."""
    if (setting := os.environ.get("STRATA_UPSTREAM_CHARTS")) and (Path(setting) / chart / "Chart.yaml").is_file():
        return Path(setting) / chart
    (entry,) = (entry for entry in charts.report() if entry.name == chart)
    return entry.path if entry.source in ("mirror", "release") else None


@pytest.mark.parametrize("chart", sorted(PINNED))
def test_the_chart_itself_renders_them(chart: str) -> None:
    path = directory(chart)
    if path is None:
        pytest.skip(f"the chart {chart} {PINNED[chart].version} is not on this machine")
    for case, (release, values) in written().items():
        if release.chart == chart:
            command = [
                "template",
                release.name,
                str(path),
                "--namespace",
                release.namespace,
                "--kube-version",
                "1.35.4",
            ]
            done = subprocess.run(
                [str(HELM), *command, "--values", "-"],
                input=json.dumps(values), capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{case}: {done.stderr}"


@pytest.mark.parametrize(
    ("chart", "wrong"),
    [
        ("traefik", {"ports": {"websecure": {"port": "https"}}}),
        ("traefik", {"ports": {"websecure": {"proxyProtocl": {}}}}),
        ("jupyterhub", {"hub": {"concurrentSpawnLimit": "many"}}),
        ("jupyterhub", {"hub": {"extraCnfig": {}}}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_values_are_found(chart: str, wrong: Values) -> None:
    schema = recorded(chart)["schema"]
    assert [*jsonschema.Draft202012Validator(schema).iter_errors(wrong), *unknown(wrong, schema)]
