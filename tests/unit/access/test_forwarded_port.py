"""The tunnel to a port of a host, with a program in ssh's place."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from strata.access import ssh

SSH = """\
#!{python}
import os, pathlib, signal, socket, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path({pid!r}).write_text(str(os.getpid()))
with socket.create_server(("127.0.0.1", int(sys.argv[-1]))) as server:
    while True:
        server.accept()[0].close()
"""


def test_a_tunnel_that_misses_its_signal_ends_nevertheless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, pid = tmp_path / "ssh", tmp_path / "pid"
    program.write_text(SSH.format(python=sys.executable, pid=str(pid)))
    program.chmod(0o755)
    monkeypatch.setattr(ssh, "CLOSE_SECONDS", 0.1)

    def line(context: object, via: str, *, options: list[str]) -> tuple[list[str], str]:
        assert (context, via) == (site, "192.0.2.1")
        own = options[options.index("-L") + 1].split(":")[1]
        return [str(program), own], "root"

    site = SimpleNamespace()
    monkeypatch.setattr(ssh, "ssh_line", line)
    with ssh.forwarded_port(site, "192.0.2.1", "192.0.2.2", 5432) as port:  # type: ignore[arg-type]
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
        process = int(pid.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
