"""What an operator types, and what is answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata.cli.arguments import complete_site
from strata.engine.run_lock import site_lock
from strata.errors import UserError
from strata.site.paths import REPOSITORY, SitePaths
from strata_bench import strata_command


def strata(*arguments: str, state: Path) -> subprocess.CompletedProcess[str]:
    return strata_command.strata(*arguments, environment=environment(state))


def environment(state: Path) -> dict[str, str]:
    return {"STRATA_STATE_DIR": str(state), "COLUMNS": "200"}


@pytest.mark.parametrize("command", ["validate", "plan", "up", "status", "env", "explain"])
def test_a_misspelt_site_is_answered_with_the_right_one(command: str, tmp_path: Path) -> None:
    extra = ["name"] if command == "explain" else []
    done = strata(command, "labb", *extra, state=tmp_path)
    assert done.returncode == 2
    assert "there is no site labb" in done.stderr
    assert "did you mean lab?" in done.stderr
    assert not list(tmp_path.iterdir()), "nothing may be touched"


def test_validate_shows_programs_every_error(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("name: Lab\ndomian: lab.strata.test\n")
    done = strata("validate", str(site), "--json", state=tmp_path / "state")
    answer = json.loads(done.stdout)
    assert done.returncode == 2
    assert answer["valid"] is False
    assert {p["key"] for p in answer["problems"]} >= {"name", "domian"}
    assert all(p["line"] >= 1 and p["fix"] for p in answer["problems"])


def test_plan_is_json_for_programs(tmp_path: Path) -> None:
    done = strata("plan", "lab", "--json", state=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["site"] == "lab"


def test_up_asks_for_charts_before_it_changes_anything(tmp_path: Path) -> None:
    """A real site gets no substitute, and no instance before it is known that its platform can be installed."""
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:1")
    place = {"STRATA_CACHE_DIR": str(tmp_path / "cache"), "NO_PROXY": "", "no_proxy": "", "STRATA_MIRROR": ""}
    done = strata_command.strata("up", "metal", environment=environment(tmp_path / "state") | nowhere | place)
    assert done.returncode == 2
    assert "chart traefik" in done.stderr
    assert "is not available" in done.stderr
    assert "helm pull traefik --repo" in done.stderr
    assert not (tmp_path / "state").exists()


def test_env_names_files_and_no_secrets(tmp_path: Path) -> None:
    done = strata("env", "lab", "--json", state=tmp_path)
    variables = json.loads(done.stdout)
    names = {"OS_CLIENT_CONFIG_FILE", "OS_CLOUD", "KUBECONFIG", "PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE_FILE"}
    assert names <= set(variables)
    assert variables["OS_CLOUD"] == "lab"
    assert "PULUMI_CONFIG_PASSPHRASE" not in variables
    assert variables["STRATA_API_URL"] == "https://api.lab.strata.test"
    assert variables["STRATA_CA_FILE"].endswith("ca.pem")


def test_down_refuses_a_site_that_is_not_a_lab(tmp_path: Path) -> None:
    done = strata("down", "csc", state=tmp_path)
    assert done.returncode == 2
    assert "not a lab site" in done.stderr


def test_destroy_asks(tmp_path: Path) -> None:
    """As a process: there is nobody at its standard input."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("strata")), "destroy", "csc"],
        env={**os.environ, **environment(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Remove" in done.stdout


def test_a_second_run_names_the_first(state_directory: Path) -> None:
    paths = SitePaths("unit")
    refused = pytest.raises(UserError, match=rf"strata up unit` \(process {os.getpid()}")
    with site_lock(paths, "up", None), refused, site_lock(paths, "down", None):
        pass
    with site_lock(paths, "down", None):
        assert "down" in (paths.root / "lock").read_text()


def test_a_restore_waits_for_no_other_run(state_directory: Path, tmp_path: Path) -> None:
    with site_lock(SitePaths("metal"), "up", None):
        done = strata("restore", "metal", "--what", "postgresql", "--overwrite", state=tmp_path)
        checked = strata("restore", "metal", "--what", "postgresql", "--dry-run", state=tmp_path)
    assert done.returncode == 2
    assert "is at work on this site" in done.stderr
    assert "is at work on this site" not in checked.stderr


def test_completion_knows_the_sites() -> None:
    assert complete_site("na") == ["nautilus"]
    assert set(complete_site("")) == {f.parent.name for f in (REPOSITORY / "inventories").glob("*/site.yaml")}
