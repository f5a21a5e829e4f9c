"""The release of example-service at the lab, rendered by the real helm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strata.catalogue.service import Service
from strata_services.example_service.service import SERVICE

Objects = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture
def objects(lab_with: Callable[..., Path], objects_of: Callable[[Service[Any], Path], list[dict[str, Any]]]) -> Objects:
    """By kind and name."""
    listed = objects_of(SERVICE, lab_with(SERVICE, replicas=2))
    return {(item["kind"], item["metadata"]["name"]): item for item in listed}


def test_its_chart_takes_the_values(objects: Objects) -> None:
    assert objects["Deployment", "example-service"]["spec"]["replicas"] == 2
    (rule,) = objects["Ingress", "example-service"]["spec"]["rules"]
    assert rule["host"] == "example-service.lab.strata.test"


def test_settings_are_those_that_the_service_reads(objects: Objects, python: Path) -> None:
    program = (
        "import json; from example_service.settings import Settings as S; "
        "print(json.dumps({S.variable(f): i.is_required() for f, i in S.model_fields.items()}))"
    )
    done = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True)
    required: dict[str, bool] = json.loads(done.stdout)
    data = objects["ConfigMap", "example-service-settings"]["data"]
    assert data.keys() <= required.keys()
    assert {name for name, needed in required.items() if needed} <= data.keys()
    (container,) = objects["Deployment", "example-service"]["spec"]["template"]["spec"]["containers"]
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    for value in data.values():
        assert not value.startswith("/") or any(value.startswith(f"{mount}/") for mount in mounts), value
