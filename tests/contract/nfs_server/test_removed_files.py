"""What the server deletes for services: all of it, whoever has written it, and nothing that a link leads to."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from jinja2 import Template

from strata.roles import DIRECTORY

TEMPLATES = DIRECTORY / "nfs_server/templates"


def rendered(name: str, *exports: Path) -> str:
    """A template of the role."""
    removed = [{"path": str(path), "removal_folder": ".removed"} for path in exports]
    template = Template((TEMPLATES / name).read_text())
    return str(template.render(_nfs_server_removal_folders=removed, ansible_managed=""))


def test_everything_goes_but_what_links_lead_to(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("of another")
    export = tmp_path / "export"
    removed = export / ".removed"
    (export / "research").mkdir(parents=True)
    deep = removed / "a1"
    for _ in range(200):
        deep = deep / "deep"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    os.mkfifo(removed / "a1/fifo")
    (removed / "a1/folder").symlink_to(kept)
    (removed / "a2").symlink_to(kept)
    shut = removed / "a3"
    (shut / "below").mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(shut, 1000, 1000)
        shut.chmod(0)
    unit = rendered("strata-removed-files.service.j2", export)
    (command,) = (line.removeprefix("ExecStart=") for line in unit.splitlines() if line.startswith("ExecStart="))
    for _ in range(2):
        subprocess.run(shlex.split(command), check=True)
    assert list(removed.iterdir()) == []
    assert (kept / "file").read_text() == "of another"
    assert sorted(path.name for path in export.iterdir()) == [".removed", "research"]


def test_each_export_is_watched() -> None:
    exports = (Path("/srv/one"), Path("/srv/two"))
    watched = [
        line for line in rendered("strata-removed-files.path.j2", *exports).splitlines() if "PathChanged" in line
    ]
    assert watched == [f"PathChanged={path}/.removed" for path in exports]
