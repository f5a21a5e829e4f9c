"""The values of the ingress controller, judged by the real helm, Traefik's own chart and the real traefik."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from strata.catalogue.service import Values
from strata.inventory.ports import INGRESS
from strata.models import Site, load_site
from strata.models.platform import Ingress, IngressCertificate
from strata.platform import ingress
from strata.site.outputs import CloudOutputs, ImageOutputs, InstanceOutput
from strata.site.paths import REPOSITORY
from strata.toolchain import cache, charts, load_versions
from strata_bench.services import free_port
from strata_bench.waiting import eventually, responds

HELM = str(Path(sys.executable).with_name("helm"))
SUBSTITUTE = REPOSITORY / "lab" / "charts" / "traefik"
DIGEST = "sha256:" + "a" * 64
BALANCER = "10.0.0.5"
ACME = IngressCertificate(source="acme", email="operators@example.org", directory="https://acme.example.org/directory")
Objects = dict[tuple[str, str], dict[str, Any]]


def site_with(certificate: IngressCertificate) -> Site:
    """The lab with certificates from elsewhere."""
    site = load_site(REPOSITORY / "inventories" / "lab" / "site.yaml")
    platform = site.platform.model_copy(update={"ingress": Ingress(certificate=certificate)})
    return site.model_copy(update={"platform": platform})


def values(certificate: IngressCertificate | None = None) -> Values:
    balancer = InstanceOutput(id="1", name="services-1", address=BALANCER, flavor="cpu", roles=("load_balancer",))
    outputs = CloudOutputs(instances={"services-1": balancer}, networks={})
    images = ImageOutputs(images={"traefik": f"registry.example.org:5000/strata/traefik@{DIGEST}"})
    return ingress.values(site_with(certificate or IngressCertificate()), outputs, images.images)


def render(given: Values, chart: Path = SUBSTITUTE) -> Objects:
    command = [HELM, "template", "traefik", str(chart), "--namespace", "traefik", "--values", "-"]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(done.stdout) if o}


def pod(objects: Objects) -> dict[str, Any]:
    (found,) = (o for (kind, _), o in objects.items() if kind in ("DaemonSet", "Deployment"))
    return dict(found["spec"]["template"]["spec"])


def arguments(objects: Objects) -> set[str]:
    return set(pod(objects)["containers"][0]["args"])


@pytest.mark.parametrize("certificate", [IngressCertificate(), ACME], ids=["site", "acme"])
def test_substitute_makes_what_traefiks_chart_makes(certificate: IngressCertificate) -> None:
    """Where Traefik's own chart was fetched: the same objects, arguments and services."""
    (chart,) = (c for c in charts.report() if c.name == "traefik")
    if chart.source not in ("mirror", "release"):
        pytest.skip(f"Traefik's chart is not in the cache: {chart.note}")
    assert chart.path is not None
    own, real = render(values(certificate)), render(values(certificate), chart.path)
    assert own.keys() == real.keys()
    assert arguments(own) <= arguments(real)
    rest = {argument.partition("=")[0] for argument in arguments(real) - arguments(own)}
    assert rest <= {"--api.dashboard", "--log.level", "--accesslog.fields.defaultmode",
                    "--accesslog.fields.headers.defaultmode"}  # fmt: skip
    for key in ("Service", "IngressClass", "ServiceAccount"):
        (name,) = (name for kind, name in own if kind == key)
        assert own[key, name].get("spec") == real[key, name].get("spec")


def test_controller_meets_the_restricted_standard() -> None:
    spec = pod(render(values()))
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "hostNetwork" not in spec
    (container,) = spec["containers"]
    assert container["image"].endswith(f"@{DIGEST}")
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True,
    }  # fmt: skip
    assert not any("hostPort" in port for port in container["ports"])


def test_only_https_is_published() -> None:
    objects = render(values())
    service = objects["Service", "traefik"]["spec"]
    assert service["type"] == "NodePort"
    assert service["externalTrafficPolicy"] == "Local", "else the client's address is lost"
    assert [(p["name"], p["nodePort"]) for p in service["ports"]] == [("websecure", INGRESS)]
    policy = objects["NetworkPolicy", "traefik"]["spec"]["ingress"]
    assert policy[0] == {
        "from": [{"ipBlock": {"cidr": f"{BALANCER}/32"}}], "ports": [{"port": 8443, "protocol": "TCP"}]
    }  # fmt: skip


def test_certificate_is_a_secret_that_no_value_holds() -> None:
    objects = render(values())
    assert objects["TLSStore", "default"]["spec"] == {"defaultCertificate": {"secretName": "site-certificate"}}
    assert not any(kind == "Secret" for kind, _ in objects)
    assert "BEGIN" not in json.dumps(values())


@pytest.mark.parametrize("key", ["typo", "hub", "tlsOptions"])
def test_substitute_refuses_other_values(key: str) -> None:
    command = [HELM, "template", "traefik", str(SUBSTITUTE), "--values", "-"]
    given = json.dumps(values() | {key: {}})
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert key in done.stderr


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
    given = [a.replace("/data/acme.json", str(tmp_path / "acme.json")) for a in given]
    log = tmp_path / "log"
    command = [str(tool.path), *given]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            responds(f"http://127.0.0.1:{ping}/ping", process, log)
            yield f"https://127.0.0.1:{secure}", log, command
        finally:
            process.kill()


def request(url: str) -> requests.Response:
    """A GET; the certificate is Traefik's own."""
    return requests.get(url, verify=False, timeout=60)  # noqa: S501 see above


@pytest.mark.parametrize("certificate", [IngressCertificate(), ACME], ids=["site", "acme"])
def test_traefik_accepts_its_arguments_and_logs_no_queries(certificate: IngressCertificate, tmp_path: Path) -> None:
    """The real binary starts with them; the providers are left out, which need a cluster."""
    given = [a for a in sorted(arguments(render(values(certificate)))) if "providers.kubernetes" not in a]
    with running(given, tmp_path) as (url, log, command):
        # no route leads there: 404, which is logged as any request
        request(f"{url}/a.txt?X-Amz-Signature=5ec2e7")
        eventually(lambda: '"GET"' in log.read_text(), 60, "the request is logged")
        assert "5ec2e7" not in log.read_text()
    unknown = subprocess.run([*command, "--typo"], capture_output=True, text=True, timeout=120, check=False)
    assert unknown.returncode != 0
    assert "typo" in unknown.stdout + unknown.stderr


def test_traefik_ends_connections_to_services_that_are_idle(tmp_path: Path) -> None:
    """Long before its own 90 s: services end theirs after a few, and may do so as the next request comes."""
    ended = threading.Event()

    class Backend(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def finish(self) -> None:
            super().finish()
            ended.set()

    routes = tmp_path / "routes.yaml"
    given = [a for a in sorted(arguments(render(values()))) if "kubernetes" not in a]
    with ThreadingHTTPServer(("127.0.0.1", 0), Backend) as backend:
        threading.Thread(target=backend.serve_forever, daemon=True).start()
        servers = [{"url": f"http://127.0.0.1:{backend.server_port}"}]
        router = {"rule": "PathPrefix(`/`)", "service": "backend", "tls": {}}
        http = {"routers": {"all": router}, "services": {"backend": {"loadBalancer": {"servers": servers}}}}
        routes.write_text(yaml.safe_dump({"http": http}))
        with running([*given, f"--providers.file.filename={routes}"], tmp_path) as (url, _, _):
            eventually(lambda: request(url).status_code == 204, 60, "the route leads to the service")
            eventually(ended.is_set, 60, "Traefik ends the idle connection")
        backend.shutdown()
