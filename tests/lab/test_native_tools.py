"""What `strata env` prints; the documents' commands (tests/docs) run the native tools with it."""

from __future__ import annotations

import subprocess

from strata.site.context import SiteContext

from .commands import STRATA


def test_env_is_valid_shell(context: SiteContext) -> None:
    """`eval "$(strata env SITE)"` works in a POSIX shell."""
    script = f'eval "$({STRATA} env {context.site_file})" && echo "$OS_CLOUD" && command -v pulumi'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, timeout=300)
    lines = done.stdout.split()
    assert lines[0] == context.site.name
    assert lines[1].endswith("/pulumi")
