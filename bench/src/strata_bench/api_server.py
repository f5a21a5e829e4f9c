"""A real API server on a real datastore, without nodes: enough for tests of objects that need none."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from strata.retry import wait_until
from strata.toolchain import tools_environment
from strata_bench.services import free_port

TOKEN = "contract-test"  # noqa: S105 of a throw-away server on loopback
START_SECONDS = 240.0
"""In which a loaded machine starts kine and the API server."""


@dataclass(frozen=True)
class ApiServer:
    """A running API server.

    Args:
        kubeconfig: of its administrator.
        authentication: file that it reads its AuthenticationConfiguration from, again when it changes.
    """

    kubeconfig: Path
    authentication: Path

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
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if "json" in arguments else done.stdout

    def namespace(self, name: str, level: str = "restricted") -> str:
        """Makes sure of a namespace that warns of pods below a level of Pod Security; returns its name."""
        if not self.kubectl("get", "namespace", name, "--ignore-not-found"):
            self.kubectl("create", "namespace", name)
            self.kubectl("label", "namespace", name, f"pod-security.kubernetes.io/warn={level}")
        return name

    def define(self, file: Path) -> None:
        """Makes sure of the CustomResourceDefinitions of a file; one without any is nothing to do."""
        if "kind:" in file.read_text():
            self.kubectl("apply", "--server-side", "--filename", str(file))
            self.kubectl("wait", "--for=condition=Established", "--timeout=120s", "--filename", str(file))

    def dry_run(self, namespace: str, manifests: str) -> subprocess.CompletedProcess[str]:
        """The server's response to manifests, taken strictly."""
        where = ("--kubeconfig", str(self.kubeconfig), "--namespace", namespace)
        return subprocess.run(
            ["kubectl", *where, "apply", "--dry-run=server", "--validate=strict", "--filename", "-"],
            input=manifests,
            env=tools_environment(),
            capture_output=True,
            text=True,
            check=False,
        )


@contextlib.contextmanager
def api_server(tools: Mapping[str, str], directory: Path) -> Iterator[ApiServer]:
    """kube-apiserver on kine on SQLite, ended afterwards; everything is allowed to the one token.

    Args:
        tools: files of kine and kube-apiserver.
        directory: for their state.
    """
    datastore, port = free_port(), free_port()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "sa.key").write_bytes(private)
    (directory / "tokens.csv").write_text(f"{TOKEN},admin,admin,system:masters\n")
    kubeconfig, authentication = directory / "kubeconfig", directory / "authentication.yaml"
    authentication.write_text("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n")
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
                f"--authentication-config={authentication}",
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
            yield ApiServer(kubeconfig, authentication)
        finally:
            for process in (server, kine):
                process.terminate()
                process.wait(120)


def _wait_ready(server: subprocess.Popen[bytes], directory: Path, port: int) -> None:
    def why_not() -> str | None:
        assert server.poll() is None, (directory / "log").read_text()[-2000:]
        try:
            answer = requests.get(
                f"https://127.0.0.1:{port}/readyz",
                headers={"Authorization": f"Bearer {TOKEN}"},
                verify=str(directory / "apiserver.crt"),
                timeout=10,
            )
        except (requests.RequestException, OSError) as error:
            return str(error)
        return None if answer.ok else answer.text

    why = wait_until(why_not, START_SECONDS)
    assert why is None, f"no API server after {START_SECONDS} s: {why}\n{(directory / 'log').read_text()[-2000:]}"
