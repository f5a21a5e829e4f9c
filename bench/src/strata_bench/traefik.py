"""The real Traefik as the site's ingress controller: objects and arguments of its chart, the binary on free ports."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.needs.hostname import INGRESS_NAMESPACE
from strata.catalogue.service import Values
from strata.models.platform import Ingress, IngressCertificate
from strata.models.site import Site
from strata.platform import ingress
from strata.site.outputs import CloudOutputs, ImageOutputs, InstanceOutput
from strata.site.paths import REPOSITORY
from strata.site.secrets import pki
from strata.site_file.loader import load_site
from strata.toolchain import cache, load_versions
from strata_bench.api_server import ApiServer
from strata_bench.services import free_port
from strata_bench.waiting import responds

HELM = str(Path(sys.executable).with_name("helm"))
SUBSTITUTE = REPOSITORY / "lab" / "charts" / "traefik"
KINDS = SUBSTITUTE / "crds" / "traefik.io.yaml"
DIGEST = "sha256:" + "a" * 64
BALANCER = "10.0.0.5"
Objects = dict[tuple[str, str], dict[str, Any]]


def site_with(certificate: IngressCertificate) -> Site:
    """The lab with certificates from elsewhere."""
    site = load_site(REPOSITORY / "inventories" / "lab" / "site.yaml")
    platform = site.platform.model_copy(update={"ingress": Ingress(certificate=certificate)})
    return site.model_copy(update={"platform": platform})


def values(certificate: IngressCertificate | None = None, authority: str | None = None) -> Values:
    """Of the chart, at the lab with certificates from there; by an ACME directory with that CA."""
    balancer = InstanceOutput(id="1", name="services-1", address=BALANCER, flavor="cpu", roles=("load_balancer",))
    outputs = CloudOutputs(instances={"services-1": balancer}, networks={})
    images = ImageOutputs(images={"traefik": f"registry.example.org:5000/strata/traefik@{DIGEST}"})
    return ingress.values(site_with(certificate or IngressCertificate()), outputs, images.images, authority)


def render(given: Values, chart: Path = SUBSTITUTE) -> Objects:
    """The objects of a chart, by the real helm."""
    command = [HELM, "template", "traefik", str(chart), "--namespace", "traefik", "--values", "-"]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(done.stdout) if o}


def pod(objects: Objects) -> dict[str, Any]:
    """The pod's spec of the workload."""
    (workload,) = (o for (kind, _), o in objects.items() if kind in ("DaemonSet", "Deployment"))
    return dict(workload["spec"]["template"]["spec"])


def arguments(objects: Objects) -> set[str]:
    """Of the container."""
    return set(pod(objects)["containers"][0]["args"])


@contextmanager
def running(given: list[str], tmp_path: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """The real binary, with the arguments but on free ports: its URL, its log, and the arguments then."""
    tool = cache.find("traefik", load_versions().components["traefik"])
    if tool is None:
        pytest.skip("traefik was not built: `strata doctor`")
    ping, secure = free_port(), free_port()
    ports = {":8080/": f"127.0.0.1:{ping}/", ":8443/": f"127.0.0.1:{secure}/"}
    ports |= {port: f"127.0.0.1:{free_port()}/" for port in (":8000/", ":9100/")}
    for old, new in ports.items():
        given = [a.replace(f"address={old}", f"address={new}") for a in given]
    files = {ingress.STORAGE: tmp_path / "acme.json", ingress.AUTHORITY_DIRECTORY: tmp_path}
    for old, file in files.items():
        given = [a.replace(f"={old}", f"={file}") for a in given]
    log = tmp_path / "log"
    command = [str(tool.path), *given]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            responds(f"http://127.0.0.1:{ping}/ping", process, log)
            yield f"https://127.0.0.1:{secure}", log, command
        finally:
            process.kill()


@dataclass(frozen=True)
class Controller:
    """A running ingress controller.

    Args:
        port: of loopback, for TLS; loopback may report clients' addresses by PROXY protocol.
        ca: file with the CA of its certificate.
        log: its output.
    """

    port: int
    ca: Path
    log: Path


@contextmanager
def running_controller(server: ApiServer, directory: Path, *names: str) -> Iterator[Controller]:
    """The ingress controller of an API server, with its chart's rights, until the end of the block.

    Args:
        server: whose objects it follows.
        directory: for its files.
        names: of its certificate.
    """
    objects = render(values())
    server.define(KINDS)
    server.namespace(INGRESS_NAMESPACE)
    file = directory / "traefik.yaml"
    kinds = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "IngressClass", "TLSStore", "Middleware"}
    applied = [item for (kind, _), item in objects.items() if kind in kinds]
    authority, key = pki.create_authority("contract-tests")
    certificate = pki.issue(authority, key, names[0], list(names), [])
    data = {"tls.crt": certificate.certificate, "tls.key": certificate.private_key}
    metadata = {"name": ingress.CERTIFICATE_SECRET}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": metadata,
        "stringData": data,
    }
    file.write_text(yaml.safe_dump_all([*applied, secret]))
    server.kubectl("-n", INGRESS_NAMESPACE, "apply", "--server-side", "--filename", str(file))
    cluster = yaml.safe_load(server.kubeconfig.read_text())["clusters"][0]["cluster"]
    (directory / "api-server.pem").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    token = server.kubectl("-n", INGRESS_NAMESPACE, "create", "token", ingress.INGRESS_RELEASE, "--duration=4h")
    (directory / "token").write_text(token.strip())
    (directory / "ca.pem").write_text(certificate.ca)
    given = [a.replace(f"{BALANCER}/32", "127.0.0.1/32") for a in sorted(arguments(objects))]
    for provider in ("kubernetescrd", "kubernetesingress"):
        given += [f"--providers.{provider}.endpoint={cluster['server']}",
                  f"--providers.{provider}.token={directory / 'token'}",
                  f"--providers.{provider}.certauthfilepath={directory / 'api-server.pem'}"]  # fmt: skip
    with running(given, directory) as (url, log, _):
        yield Controller(int(url.rpartition(":")[2]), directory / "ca.pem", log)
