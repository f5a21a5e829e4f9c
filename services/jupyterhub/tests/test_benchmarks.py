"""`scripts/bench` finds the benchmarks of the notebooks, which say what a site is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from strata.errors import UserError
from strata.progress import Silent
from strata.site.paths import REPOSITORY
from strata.site_file.inventories import find_site
from strata_bench.catalogue import BENCHMARKS
from strata_bench.model import Bench
from strata_services.jupyterhub.simulated import TAINT


@pytest.mark.parametrize("name", ["notebooks", "notebooks-64"])
def test_a_site_without_notebooks_cannot_be_measured(name: str, tmp_path: Path) -> None:
    asked = Bench(1, Silent(), tmp_path, site_file=find_site("metal"))
    with pytest.raises(UserError, match="site metal has no jupyterhub"):
        list(BENCHMARKS[name].run(asked))


def test_servers_tolerate_the_taint_of_simulated_nodes() -> None:
    """As with zero-to-jupyterhub's own chart."""
    values = yaml.safe_load((REPOSITORY / "lab" / "charts" / "jupyterhub" / "values.yaml").read_text())
    assert {**TAINT, "operator": "Equal"} in values["scheduling"]["userPods"]["tolerations"]
