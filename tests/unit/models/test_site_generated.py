"""What is generated from the model is committed, and fresh."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from strata.models.accelerator_catalogue import CATALOGUE
from strata.models.base import Model
from strata.models.site import Site
from strata.site_file.generate import generated
from strata.site_file.inventories import find_site, site_names
from strata.site_file.loader import load_site

EXAMPLES = {"lab", "campus", "tacc", "cnaf", "nautilus", "csc"}
SCREENS = 2 * 50
"""Lines of two screens."""


@pytest.mark.parametrize("file", generated(), ids=lambda f: f.name)
def test_committed_file_is_fresh(file: Path) -> None:
    assert file.read_text() == generated()[file], "run: python -m strata.site_file.generate"


def _models(annotation: Any, seen: set[type[Model]]) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        if annotation not in seen:
            seen.add(annotation)
            yield annotation
            for field in annotation.model_fields.values():
                yield from _models(field.annotation, seen)
        return
    for argument in get_args(annotation):
        yield from _models(argument, seen)


MODELS = list(_models(Site, set()))


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_every_key_is_described(model: type[Model]) -> None:
    assert model.__doc__
    assert model.model_config["extra"] == "forbid"
    assert model.model_config["frozen"]
    for name, field in model.model_fields.items():
        assert field.description, f"{model.__name__}.{name}"


@pytest.mark.parametrize("kind", CATALOGUE)
def test_accelerators_are_what_nova_accepts(kind: str) -> None:
    accelerator = CATALOGUE[kind]
    assert accelerator.kind == kind
    assert re.fullmatch("[0-9a-f]{4}", accelerator.vendor_id)
    assert re.fullmatch("[0-9a-f]{4}", accelerator.product_id)
    # nova's PCI alias and a Kubernetes label value
    assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", kind)


def test_support_ends_with_volta() -> None:
    ended = {kind for kind, card in CATALOGUE.items() if card.last_driver_branch is not None}
    assert ended == {"gtx1080ti", "p100", "v100", "v100-32gb", "v100s", "v100-sxm2", "v100-sxm2-32gb"}
    assert {CATALOGUE[kind].last_driver_branch for kind in ended} == {580}
    assert {CATALOGUE[kind].last_cuda for kind in ended} == {12}
    assert not any(CATALOGUE[kind].open_kernel_modules for kind in ended)
    assert {a.kind for a in CATALOGUE.values() if a.mig_profiles} == {
        *("a30", "a100", "a100-80gb", "a100-sxm4", "a100-sxm4-80gb"),
        *("h100", "h100-sxm5", "h200", "h200-nvl"),
    }


def test_no_two_kinds_are_the_same_device() -> None:
    assert len({(a.vendor_id, a.product_id) for a in CATALOGUE.values()}) == len(CATALOGUE)


def test_the_examples_are_there() -> None:
    assert set(site_names()) >= EXAMPLES


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_example_reads_on_two_screens(name: str) -> None:
    file = find_site(name)
    lines = file.read_text().splitlines()
    assert load_site(file).name == name
    assert len(lines) <= SCREENS
    assert lines[0] == "# yaml-language-server: $schema=../../docs/reference/site.schema.json"
    assert lines[1].startswith("# ")


def test_cnaf_has_the_cards_of_its_document() -> None:
    cloud = load_site(find_site("cnaf")).cloud
    assert cloud is not None
    cards = [h.accelerators for h in cloud.hypervisors]
    assert cards == [{"t4": 8, "rtx5000": 5}, {"a30": 1, "a100": 2, "u50": 2, "u250": 1}]


def test_nautilus_has_many_institutions() -> None:
    machines = load_site(find_site("nautilus")).hosts.machines
    assert len({m.institution for m in machines}) >= 4
    # the GPU that its paper names, eight in each FIONA8
    assert [dict(m.accelerators) for m in machines if m.accelerators] == [{"gtx1080ti": 8}] * 4
