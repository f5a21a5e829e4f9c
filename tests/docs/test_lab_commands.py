"""The documents' commands against the running lab."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY

from .markdown import Block, blocks, documents
from .runner import run_blocks

CHOSEN: dict[Path, list[Block]] = {d: [b for b in blocks(d) if b.where == "lab"] for d in documents()}
NIGHTLY = {"docs/hosts.md": "as docs/cluster.md runs a playbook", "docs/security.md": "docs/first-site.md plans too"}
"""Documents whose commands take long and are much like those of another one."""


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(d, marks=[pytest.mark.nightly] * (str(d) in NIGHTLY), id=str(d))
        for d, chosen in CHOSEN.items()
        if chosen
    ],
)
def test_commands_do_what_is_documented(document: Path, context: SiteContext, tmp_path: Path) -> None:
    if context.site.name != "lab" or context.site_file != REPOSITORY / "inventories" / "lab" / "site.yaml":
        pytest.skip(f"the documents speak of the site lab, the tests of {context.site_file}")
    environment = dict(os.environ) | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "160"}
    environment |= {"TMPDIR": str(tmp_path)}
    wrong = run_blocks(CHOSEN[document], REPOSITORY, environment)
    assert not wrong, "\n\n".join(wrong)
