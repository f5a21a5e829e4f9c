"""A service from `strata new-service` runs on the lab, is seen by every command, and leaves nothing behind.

A copy of the repository has it: `up` of the copy installs it, `up` of this repository removes it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from strata.catalogue.service import SYSTEM_NAMESPACE
from strata.site.context import SiteContext
from strata.site.data_protection import ProtectedResources
from strata.site.paths import REPOSITORY
from strata.verify.pods import Kubectl

from .commands import strata, up

pytestmark = pytest.mark.nightly

NAME, KEY = "greeting-desk", "greeting_desk"
DATABASE = f"database/{KEY}"
NOT_COPIED = (".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "tests")


class Copied:
    """The copy: its site file, and the environment in which `strata` is the copy's."""

    def __init__(self, root: Path, context: SiteContext) -> None:
        self.root = root
        self.environment: Mapping[str, str] = {"PYTHONPATH": f"{root / 'src'}:{root / 'lab' / 'src'}"}
        self.site_file = root / "inventories" / context.site.name / "site.yaml"

    def json(self, command: str, *options: str) -> dict[str, object]:
        """What a command on the site answers."""
        done = strata(command, self.site_file, *options, "--json", environment=self.environment)
        output: dict[str, object] = json.loads(done.stdout)
        return output


@pytest.fixture(scope="module")
def copied(context: SiteContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copied]:
    """The lab with the service; afterwards without."""
    if not context.site_file.is_relative_to(REPOSITORY):
        pytest.skip("the site file is outside of the repository")
    root = tmp_path_factory.mktemp("new") / "strata"
    shutil.copytree(REPOSITORY, root, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
    checkout = Copied(root, context)
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "--message=before")
    done = strata("new-service", NAME, environment=checkout.environment)
    assert done.returncode == 0, done.stderr
    assert {
        "/".join(f.split("/")[:2]) for f in git(root, "status", "--porcelain=1", "-z", "-uall").split("\0") if f
    } == {
        f"?? services/{NAME}",
        f"?? helm/{NAME}",
        " M docs/reference",
    }
    content = yaml.safe_load(checkout.site_file.read_text())
    content["platform"]["services"][KEY] = {}
    checkout.site_file.write_text(yaml.safe_dump(content))
    up(checkout.site_file, environment=checkout.environment)
    try:
        yield checkout
    finally:
        remove(context)


def remove(context: SiteContext) -> None:
    """Brings the lab up without the service; its database goes only when it is named, and can be named only once."""
    kept = ProtectedResources.of(context.paths).kept
    up(context.site_file, *(option for item in kept if item.key == DATABASE for option in ("--remove", DATABASE)))


def git(root: Path, *arguments: str) -> str:
    """What git prints."""
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


def test_every_command_sees_it(copied: Copied) -> None:
    assert f'"{NAME}"' in json.dumps(copied.json("plan", "--offline"))
    assert NAME in json.dumps(copied.json("status"))
    checks = copied.json("verify")["checks"]
    assert isinstance(checks, list)
    # its own, and those of any service with a name and tokens
    assert {check["state"] for check in checks if check["area"] == KEY} == {"passed"}
    assert not [check for check in checks if check["state"] == "failed"]


def test_drift_of_it_is_seen_and_repaired(copied: Copied, kubectl: Kubectl) -> None:
    kubectl("delete", "service", NAME, "--namespace", SYSTEM_NAMESPACE)
    assert f"release {NAME}: Service" in json.dumps(copied.json("status"))
    up(copied.site_file, "--layer", "platform", environment=copied.environment)
    assert (
        kubectl("get", "service", NAME, "--namespace", SYSTEM_NAMESPACE, "--output=name").strip() == f"service/{NAME}"
    )


def test_it_leaves_nothing_behind(copied: Copied, context: SiteContext, kubectl: Kubectl) -> None:
    refused = strata("up", context.site_file, "--no-verify")
    assert refused.returncode != 0
    assert f"--remove {DATABASE}" in refused.stderr
    remove(context)
    selector = f"--selector=app.kubernetes.io/instance={NAME}"
    assert (
        kubectl(
            "get", "all,configmap,ingress,secret,networkpolicy", "--namespace", SYSTEM_NAMESPACE, selector, "-o=name"
        )
        == ""
    )
    assert up(context.site_file)["changed"] == 0
