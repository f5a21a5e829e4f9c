"""A real API server on a real datastore, without nodes: enough for releases of objects that need none."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from strata.toolchain import bin_directory, tools_environment

TOKEN = "contract-test"


@dataclass(frozen=True)
class ApiServer:
    """A running API server.

    Args:
        kubeconfig: of its administrator.
    """

    kubeconfig: Path

    def kubectl(self, *arguments: str, check: bool = True) -> str:
        """Runs the pinned kubectl; returns its output."""
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(self.kubeconfig), *arguments],
            env=tools_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def helm(self, *arguments: str) -> Any:
        """Runs helm with JSON output."""
        done = subprocess.run(
            ["helm", "--kubeconfig", str(self.kubeconfig), *arguments],
            env=tools_environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout) if "json" in arguments else done.stdout


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def tools() -> dict[str, str]:
    """PATH lookups of the binaries that these tests run; skips where one has not been built yet."""
    path = tools_environment()["PATH"]
    found = {name: shutil.which(name, path=path) for name in ("kine", "kube-apiserver", "kubectl", "helm", "pulumi")}
    missing = [name for name, file in found.items() if file is None]
    if missing:
        pytest.skip(f"not in {bin_directory()}: {', '.join(missing)}; `strata doctor --fetch` or `strata up` gets them")
    return {name: str(file) for name, file in found.items()}


@pytest.fixture(scope="session")
def api_server(tools: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """kube-apiserver on kine on SQLite; everything is allowed to the one token."""
    directory = tmp_path_factory.mktemp("apiserver")
    datastore, port = _free_port(), _free_port()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "sa.key").write_bytes(private)
    (directory / "tokens.csv").write_text(f"{TOKEN},admin,admin,system:masters\n")
    kubeconfig = directory / "kubeconfig"
    with (directory / "log").open("w") as log:
        kine = subprocess.Popen(
            [
                tools["kine"],
                f"--endpoint=sqlite://{directory}/state.db?_journal_mode=WAL&_busy_timeout=30000&_txlock=immediate&cache=shared",
                f"--listen-address=tcp://127.0.0.1:{datastore}",
                "--metrics-bind-address=0",
            ],
            stdout=log,
            stderr=log,
        )
        server = subprocess.Popen(
            [
                tools["kube-apiserver"],
                f"--etcd-servers=http://127.0.0.1:{datastore}",
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={directory}",
                f"--token-auth-file={directory}/tokens.csv",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://contract.test",
                f"--service-account-key-file={directory}/sa.key",
                f"--service-account-signing-key-file={directory}/sa.key",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--disable-admission-plugins=ServiceAccount",
                "--endpoint-reconciler-type=none",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            _wait_ready(server, directory, port)
            certificate = base64.b64encode((directory / "apiserver.crt").read_bytes()).decode()
            cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": certificate}
            content = {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": "test", "user": {"token": TOKEN}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            }
            kubeconfig.write_text(yaml.safe_dump(content))
            kubeconfig.chmod(0o600)
            yield ApiServer(kubeconfig)
        finally:
            for process in (server, kine):
                process.terminate()
                process.wait(30)


def _wait_ready(server: subprocess.Popen[bytes], directory: Path, port: int) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert server.poll() is None, (directory / "log").read_text()[-2000:]
        try:
            answer = requests.get(
                f"https://127.0.0.1:{port}/readyz",
                headers={"Authorization": f"Bearer {TOKEN}"},
                verify=str(directory / "apiserver.crt"),
                timeout=2,
            )
            if answer.ok:
                return
        except (requests.RequestException, OSError):
            pass
        time.sleep(0.5)
    pytest.fail(f"no API server after 90 s: {(directory / 'log').read_text()[-2000:]}")
