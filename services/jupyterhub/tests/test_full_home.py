"""A home without a free block: the image's JupyterLab, and what its user reads."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
import websocket

from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_bench.module_file import load_module
from strata_bench.services import free_port, service_python
from strata_bench.waiting import responds
from strata_services.jupyterhub.kernel import run_code
from strata_services.jupyterhub.service import SERVICE

IMAGE = SERVICE.folder / "images" / "notebook"
home = load_module(IMAGE / "src" / "strata_notebook" / "home.py")
GIBIBYTE = 1 << 30
SECONDS = 120.0
"""The longest wait on a loaded machine."""
FILLER = "filler.bin"


def file_system(monkeypatch: pytest.MonkeyPatch, total: int, free: int, files: int = 1000) -> None:
    """Has each directory be on a file system of a size, in bytes."""
    statistics = SimpleNamespace(
        f_blocks=total // 4096, f_bavail=free // 4096, f_frsize=4096, f_files=1000 if total else 0, f_favail=files
    )
    monkeypatch.setattr("os.statvfs", lambda _: statistics)


def test_own_limit_is_distinguished_from_the_volumes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file_system(monkeypatch, 20 * GIBIBYTE, 0)
    text = "Your home is full: 20.0 GiB of 20.0 GiB are used, the limit of this site."
    assert home.full(tmp_path, 20 * GIBIBYTE).startswith(text)
    for limit in (0, 10 * GIBIBYTE):
        assert home.full(tmp_path, limit).startswith("The volume with the homes of all users has no space left.")
    file_system(monkeypatch, 20 * GIBIBYTE, GIBIBYTE)
    assert home.full(tmp_path, 20 * GIBIBYTE) is None
    assert home.full(tmp_path, 0) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_volume_behind_a_limit_with_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int) -> None:
    """The file system shows what the limit leaves, however little its volume has."""
    file_system(monkeypatch, 20 * GIBIBYTE, 10 * GIBIBYTE)

    def refuse(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("os.fsync", refuse)
    assert home.full(tmp_path, 20 * GIBIBYTE).startswith("The volume with the homes of all users has no space left.")


def test_volume_without_files_is_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file_system(monkeypatch, 20 * GIBIBYTE, GIBIBYTE, files=0)
    assert home.full(tmp_path, 0).startswith("The volume with the homes of all users has no files left.")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"maximum_home_size": "10 GiB"}, "is not less than the volume with all homes, homes_size (10 GiB)"),
        ({"maximum_home_size": "0 GiB"}, "is less than a server writes when it starts"),
    ],
)
def test_limit_must_leave_room(lab_with: object, settings: dict[str, str], message: str) -> None:
    with pytest.raises(SiteError, match=message.replace("(", r"\(").replace(")", r"\)")):
        load_site(lab_with(SERVICE, **settings))  # type: ignore[operator]


@pytest.fixture(params=["new home", "home of a kernel"])
def full_home(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """On a file system without a free block; the second is migrated from IPython's directory where it is not marked."""
    directory = tmp_path / "home"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(directory)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("root may not mount a file system here")
    try:
        if request.param == "home of a kernel":
            home.prepare_kernels(directory, {})
            shutil.rmtree(directory / home.IPYTHON)
        done = subprocess.run(["dd", "if=/dev/zero", f"of={directory / FILLER}"], capture_output=True, check=False)
        assert b"No space left on device" in done.stderr
        # tmpfs has room for a directory without a block; a file system on a disk has not
        statistics = os.statvfs(directory)
        inodes = statistics.f_files - statistics.f_ffree + 1
        subprocess.run(["mount", "-o", f"remount,nr_inodes={inodes}", str(directory)], check=True)
        (directory / "last").touch()
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_server_kernel_and_terminal_start_in_a_full_home(full_home: Path, tmp_path: Path) -> None:
    port, python = free_port(), service_python("jupyterhub/images/notebook")
    command = [str(python), "-m", "jupyterlab", "--no-browser", "--IdentityProvider.token=lab", f"--port={port}"]
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(full_home), "PYTHONPATH": str(IMAGE / "src"),
        "JUPYTER_PATH": str(IMAGE / "share" / "jupyter"), "JUPYTER_CONFIG_PATH": str(IMAGE / "etc" / "jupyter"),
        "PYTHONPYCACHEPREFIX": str(python.parents[1] / "bytecode"), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
    }  # fmt: skip
    url, log = f"http://127.0.0.1:{port}/api", tmp_path / "log"

    def call(method: str, path: str, body: object = None) -> requests.Response:
        answer = requests.request(method, f"{url}/{path}", json=body, params={"token": "lab"}, timeout=SECONDS)
        assert answer.ok, answer.text + log.read_text()
        return answer

    with log.open("w") as stream:
        process = subprocess.Popen(
            [*command, "--allow-root"], cwd=full_home, env=environment, stdout=stream, stderr=stream
        )
    try:
        responds(f"{url}/status?token=lab", process, log)
        kernel = call("POST", "kernels", {"name": "python3"}).json()["id"]
        address = f"{url.replace('http', 'ws')}/kernels/{kernel}/channels?token=lab"
        channels = websocket.create_connection(address, timeout=SECONDS)
        assert run_code(channels, "print(6 * 7)") == "42\n", log.read_text()
        assert call("POST", "terminals").json()["name"]
        assert call("GET", "metrics/v1").json()["disk_total"] == 2 << 20
        # a trash would need space, and free none
        call("DELETE", f"contents/{FILLER}")
        assert not (full_home / FILLER).exists()
        assert os.statvfs(full_home).f_bavail > 0
    finally:
        process.terminate()
        process.wait(30)
