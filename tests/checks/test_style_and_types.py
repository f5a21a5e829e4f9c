"""Style and types of the whole repository, beside the tests of the running site, which take longest."""

from __future__ import annotations

import subprocess

from strata.site.paths import REPOSITORY


def test_style_and_types() -> None:
    done = subprocess.run(
        [str(REPOSITORY / "scripts" / "test"), "--checks"],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
