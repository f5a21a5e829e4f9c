"""The values of the ingress controller, judged by the real helm, Traefik's own chart and the real traefik."""

from __future__ import annotations

import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
import yaml

from strata.inventory.port_numbers import INGRESS
from strata.models.platform import IngressCertificate
from strata.toolchain import charts
from strata_bench.traefik import BALANCER, DIGEST, HELM, SUBSTITUTE, arguments, pod, render, running, values
from strata_bench.waiting import eventually

ACME = IngressCertificate(source="acme", email="operators@example.org", directory="https://acme.example.org/directory")


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


@pytest.mark.parametrize(("own", "expected", "surge"), [(None, "nfs", 1), ("ceph", "ceph", 0)])
def test_requested_certificates_are_in_a_volume(own: str | None, expected: str, surge: int) -> None:
    """A volume of another class than NFS may be attached to one node only."""
    objects = render(values(ACME.model_copy(update={"storage_class": own}), "authority"))
    assert objects["PersistentVolumeClaim", "traefik"]["spec"]["storageClassName"] == expected
    update = objects["Deployment", "traefik"]["spec"]["strategy"]
    assert update == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1 - surge, "maxSurge": surge}}
    mounts = pod(objects)["containers"][0]["volumeMounts"]
    assert {"name": "acme-authority", "mountPath": "/acme-authority", "readOnly": True} in mounts


@pytest.mark.parametrize("key", ["typo", "hub", "tlsOptions"])
def test_substitute_refuses_other_values(key: str) -> None:
    command = [HELM, "template", "traefik", str(SUBSTITUTE), "--values", "-"]
    given = json.dumps(values() | {key: {}})
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert key in done.stderr


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
