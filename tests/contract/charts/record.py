"""Records what a chart of another project accepts: `python -m tests.contract.charts.record DIRECTORY`.

DIRECTORY is the unpacked chart. Its schema is recorded without descriptions; for a chart without one, the names of its
values.yaml. A chart whose sources hold the schema as YAML (zero-to-jupyterhub) is recorded from that.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import yaml

from strata.toolchain import load_versions

CUSTOM_RESOURCES = {"kueue": ("clusterqueues", "cohorts", "localqueues", "resourceflavors")}
"""Of charts whose objects Strata writes too."""
HELM = Path(sys.executable).with_name("helm")
RECORDED = Path(__file__).parent / "recorded"
REMARKS = {"description", "title", "default", "examples"}
NAMED = {"properties", "patternProperties", "definitions", "$defs"}
"""Keywords whose keys are names, not keywords."""


def without_remarks(schema: Any) -> Any:
    """A schema without what allows and forbids nothing."""
    if isinstance(schema, dict):
        return {
            key: {name: without_remarks(item) for name, item in value.items()}
            if key in NAMED
            else without_remarks(value)
            for key, value in schema.items()
            if key not in REMARKS
        }
    return [without_remarks(item) for item in schema] if isinstance(schema, list) else schema


def names(values: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Dotted names of values, without the entries of lists."""
    for key, value in values.items() if isinstance(values, dict) else ():
        yield ".".join((*path, key))
        yield from names(value, (*path, key))


def record(directory: Path) -> dict[str, Any]:
    """What the chart accepts."""
    name = yaml.safe_load((directory / "Chart.yaml").read_text())["name"]
    content: dict[str, Any] = {"version": load_versions().charts[name].version}
    for file in (directory / "values.schema.json", directory / "values.schema.yaml"):
        if file.exists():
            return content | {"schema": without_remarks(yaml.safe_load(file.read_text()))}
    definitions = CUSTOM_RESOURCES.get(name)
    crds = {"customResources": custom_resources(directory, definitions)} if definitions else {}
    return content | {"names": sorted(names(yaml.safe_load((directory / "values.yaml").read_text())))} | crds


def custom_resources(directory: Path, plurals: Collection[str]) -> list[dict[str, Any]]:
    """The chart's definitions of custom resources: the stored version without descriptions and conversion."""
    command = ["template", "record", str(directory), "--kube-version", "1.35.4"]
    done = subprocess.run([str(HELM), *command], capture_output=True, text=True, check=True)
    resources = []
    for item in yaml.safe_load_all(done.stdout):
        if item and item["kind"] == "CustomResourceDefinition" and item["spec"]["names"]["plural"] in plurals:
            spec = item["spec"]
            kept = {key: spec[key] for key in ("group", "names", "scope")}
            stored = [without_remarks(version) for version in spec["versions"] if version["storage"]]
            metadata = {"name": item["metadata"]["name"]}
            resources.append({"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": metadata,
                          "spec": {**kept, "versions": stored}})  # fmt: skip
    return resources


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        chart = Path(argument)
        text = json.dumps(record(chart), separators=(",", ":"), sort_keys=True)
        (RECORDED / f"{chart.resolve().name}.json").write_text(text + "\n")
