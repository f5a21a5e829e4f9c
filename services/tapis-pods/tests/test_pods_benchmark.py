"""`scripts/bench` finds the benchmark of pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import UserError
from strata.progress import Silent
from strata.site_file.inventories import find_site
from strata_bench.catalogue import BENCHMARKS
from strata_bench.model import Bench


def test_a_site_without_pods_cannot_be_measured(tmp_path: Path) -> None:
    asked = Bench(1, Silent(), tmp_path, site_file=find_site("metal"))
    with pytest.raises(UserError, match=r"site metal has no platform\.services\.tapis_pods"):
        list(BENCHMARKS["tapis-pods"].run(asked))
