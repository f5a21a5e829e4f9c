"""Fixtures: PostgreSQL, the real API server with a substitute for the kubelet, an issuer, the two processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from strata_bench.api_server import ApiServer
from strata_bench.forwarding import forwarding
from strata_bench.helm import Helm
from strata_bench.https_server import in_background
from strata_bench.login_issuer import LoginIssuer, running_login_issuer
from strata_bench.service_processes import Service, running
from strata_bench.services import PostgreSQL, free_port, service_python
from strata_bench.token_issuer import Issuer
from strata_bench.traefik import KINDS

from .kubelet import Kubelet, running_kubelet
from .prometheus import Prometheus, running_prometheus
from .users import IMAGE, Owner, User

DOMAIN = "pods.lab.strata.test"
TENANTS = [
    {
        "name": "research",
        "images": [IMAGE, "registry.example.org:5000/open/"],
        "millicpu": 8000,
        "mebibytes": 16384,
        "environment": {"A": "site", "HF_ENDPOINT": "http://models"},
    },
    {
        "name": "teaching",
        "images": [IMAGE],
        "millicpu": 4000,
        "mebibytes": 4096,
        "gpus": {"resource": "nvidia.com/gpu", "maximum": 2},
    },
]
VERSIONS = Path(__file__).parents[1] / "src" / "pods" / "migrations" / "versions"
NEWEST = max(file.name.removeprefix("v").partition("_")[0] for file in VERSIONS.glob("v*.py"))
"""Version of the schema that the service's last migration leaves."""
TEMPLATES = [
    {
        "name": "web",
        "description": "a web server",
        "pod_definition": {
            "image": f"{IMAGE}:1",
            "command": ["serve"],
            "networking": {"default": {"port": 8000}},
            "environment_variables": {"MODE": "fast", "PLACE": "site"},
            "resources": {"mem_limit": 512},
        },
    }
]
BESIDE_PODS = "services,ingresses,ingressroutetcps,middlewares.traefik.io,middlewaretcps"
"""Kinds of what the reconciler makes for a pod."""
WEB_URL = f"https://{DOMAIN}"
LOGOUT_URL = "https://login.lab.strata.test/logout"
CLIENT_SECRET = "s3cret of the & client"


@pytest.fixture(scope="session")
def issuer() -> Iterator[LoginIssuer]:
    """An issuer with one key, and the service's client."""
    with running_login_issuer(
        LoginIssuer("pods", "pods-login", CLIENT_SECRET, f"{WEB_URL}/.login/callback")
    ) as running:
        yield running


@pytest.fixture(scope="session")
def api_port() -> int:
    """Of the API, at all addresses of this machine."""
    return free_port()


@pytest.fixture(scope="session")
def prometheus_server() -> Iterator[Prometheus]:
    """What both processes ask for measurements."""
    with running_prometheus() as running:
        yield running


@pytest.fixture
def prometheus(prometheus_server: Prometheus) -> Iterator[Prometheus]:
    """The same, which has measured nothing yet."""
    prometheus_server.reset()
    yield prometheus_server
    prometheus_server.reset()


@pytest.fixture(scope="session")
def environment(
    postgresql: PostgreSQL,
    accounts: dict[str, Path],
    prometheus_server: Prometheus,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str]:
    """Of both processes, with a migrated database."""
    assert accounts
    tenants = tmp_path_factory.mktemp("tenants") / "tenants.json"
    tenants.write_text(json.dumps(TENANTS))
    variables = postgresql.create_database("pods", "PODS")
    templates = tenants.with_name("templates.json")
    templates.write_text(json.dumps(TEMPLATES))
    variables |= {"PODS_TEMPLATES_FILE": str(templates), "PODS_PROMETHEUS_URL": prometheus_server.url}
    variables |= {"PODS_TENANTS_FILE": str(tenants), "PODS_DOMAIN": DOMAIN, "PATH": os.environ["PATH"]}
    command = [str(service_python("tapis-pods")), "-m", "pods", "migrate"]
    for changed in (True, False):
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert json.loads(done.stdout) == {"schema": NEWEST, "changed": changed}, done.stderr
    return variables


@pytest.fixture(scope="session")
def accounts(api_server: ApiServer, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Kubeconfigs of the two service accounts, which have the rights of the chart pods-tenant and no others."""
    directory = tmp_path_factory.mktemp("accounts")
    api_server.define(KINDS)
    for namespace in ("strata-system", *(str(tenant["name"]) for tenant in TENANTS)):
        if not api_server.kubectl("get", "namespace", namespace, "--ignore-not-found"):
            api_server.kubectl("create", "namespace", namespace)
    for name in (str(tenant["name"]) for tenant in TENANTS):
        # as the tenant's own chart has it
        api_server.kubectl("label", "--overwrite", "namespace", name, "pod-security.kubernetes.io/enforce=baseline")
        file = directory / f"{name}.yaml"
        file.write_text(yaml.safe_dump_all(helm.template("pods-tenant", {"namespace": name}).values()))
        api_server.kubectl("apply", "--filename", str(file))
    files = {}
    for part, account in {"api": "tapis-pods", "reconciler": "tapis-pods-reconciler"}.items():
        if not api_server.kubectl("-n", "strata-system", "get", "serviceaccount", account, "--ignore-not-found"):
            api_server.kubectl("-n", "strata-system", "create", "serviceaccount", account)
        content = yaml.safe_load(api_server.kubeconfig.read_text())
        token = api_server.kubectl("-n", "strata-system", "create", "token", account, "--duration=4h")
        content["users"][0]["user"] = {"token": token.strip()}
        files[part] = directory / part
        files[part].write_text(yaml.safe_dump(content))
    return files


StartApi = Callable[..., AbstractContextManager[Service]]


@pytest.fixture(scope="session")
def start_api(
    environment: dict[str, str],
    accounts: dict[str, Path],
    issuer: LoginIssuer,
    tmp_path_factory: pytest.TempPathFactory,
) -> StartApi:
    """`with start_api(PODS_LOG_LEVEL="debug") as service:`; at a free port unless one is given."""

    def start(port: int = 0, **own: str) -> AbstractContextManager[Service]:
        port = port or free_port()
        directory = tmp_path_factory.mktemp("api")
        settings = {
            **environment,
            "PODS_KUBECONFIG": str(accounts["api"]),
            **issuer.login_settings("PODS", directory),
            # the ingress controller of the tests reaches it at this machine's own address
            "PODS_BIND_ADDRESS": "0.0.0.0",  # noqa: S104
            "PODS_BIND_PORT": str(port),
            "PODS_METRICS_PORT": str(free_port()),
            "PODS_RATE_LIMIT": "100000/minute",
            "PODS_WEB_URL": WEB_URL,
            "PODS_LOGOUT_URL": LOGOUT_URL,
            **own,
        }
        return running(service_python("tapis-pods"), ["-m", "pods", "serve"], settings, port, directory)

    return start


@pytest.fixture(scope="session")
def api(start_api: StartApi, api_port: int) -> Iterator[Service]:
    """The API."""
    with start_api(api_port) as service:
        yield service


FILES_PATHS = ("/v3/pods/volumes", "/v3/pods/snapshots")
WITHOUT_CAPABILITIES = ["/usr/bin/setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
"""As the chart has it: root of the tests could read what pods keep from others."""


@pytest.fixture(scope="session")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export with the volumes, as the role nfs_server makes it."""
    root = tmp_path_factory.mktemp("export")
    for name in (".removed", *(str(tenant["name"]) for tenant in TENANTS)):
        (root / name).mkdir()
        (root / name).chmod(0o2770)
    return root


StartFiles = Callable[[], AbstractContextManager[Service]]


@pytest.fixture(scope="session")
def start_files(
    environment: dict[str, str], issuer: Issuer, export: Path, tmp_path_factory: pytest.TempPathFactory
) -> StartFiles:
    """`with start_files() as service:`."""

    def start() -> AbstractContextManager[Service]:
        port = free_port()
        settings = {
            **environment,
            "PODS_ISSUER": issuer.url,
            "PODS_BIND_PORT": str(port),
            "PODS_METRICS_PORT": str(free_port()),
            "PODS_RATE_LIMIT": "100000/minute",
            "PODS_VOLUMES_PATH": str(export),
            "PODS_UPLOAD_MEBIBYTES": "8",
        }
        command = [*WITHOUT_CAPABILITIES, str(service_python("tapis-pods")), "-m", "pods", "files"]
        return running(Path(command[0]), command[1:], settings, port, tmp_path_factory.mktemp("files"))

    return start


@pytest.fixture(scope="session")
def files(start_files: StartFiles) -> Iterator[Service]:
    """What serves volumes and snapshots."""
    with start_files() as service:
        yield service


@pytest.fixture(scope="session")
def gateway(api: Service, files: Service) -> Iterator[str]:
    """One URL for both, as the Ingress of the chart has it."""

    handler = forwarding(lambda path: files.url if path.startswith(FILES_PATHS) else api.url, "host", "connection")
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with in_background(server):
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def clean(postgresql: PostgreSQL, environment: dict[str, str], api_server: ApiServer) -> None:
    """No pods."""
    postgresql.sql("DELETE FROM pods; DELETE FROM templates; DELETE FROM images", environment["PODS_DATABASE_NAME"])
    for tenant in TENANTS:
        api_server.kubectl("-n", str(tenant["name"]), "delete", f"pods,{BESIDE_PODS}", "--all", "--now")


Change = Callable[[str, str], None]


@pytest.fixture
def change(postgresql: PostgreSQL, environment: dict[str, str]) -> Change:
    """`change("gpu1", "start_instance_ts = now()")`: columns of a pod, as if time had passed."""

    def run(pod_id: str, columns: str) -> None:
        statement = f"UPDATE pods SET {columns} WHERE pod_id = '{pod_id}'"  # noqa: S608  # of these tests
        postgresql.sql(statement, environment["PODS_DATABASE_NAME"])

    return run


@pytest.fixture(scope="session")
def kubelet(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    """What runs pods."""
    with running_kubelet(api_server, tmp_path_factory.mktemp("kubelet")) as running:
        yield running


StartReconciler = Callable[..., AbstractContextManager["subprocess.Popen[bytes]"]]


@pytest.fixture
def start_reconciler(
    environment: dict[str, str], accounts: dict[str, Path], api_port: int, tmp_path: Path
) -> StartReconciler:
    """`with start_reconciler() as process:`; it compares everything each second, or as seldom as asked."""

    @contextmanager
    def start(resync_seconds: int = 1) -> Iterator[subprocess.Popen[bytes]]:
        own = {"PODS_METRICS_PORT": str(free_port()), "PODS_RESYNC_SECONDS": str(resync_seconds)}
        own |= {"PODS_FORWARD_AUTH_URL": f"http://127.0.0.1:{api_port}/v3/forward-auth"}
        own["PODS_IDLE_CHECK_SECONDS"] = "0.5"
        settings = {**environment, "PODS_KUBECONFIG": str(accounts["reconciler"]), **own}
        with (tmp_path / "reconciler.log").open("ab") as log:
            command = [str(service_python("tapis-pods")), "-m", "pods", "reconcile"]
            process = subprocess.Popen(command, env=settings, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait(30)

    return start


@pytest.fixture(scope="session")
def user(api: Service, issuer: Issuer) -> Callable[..., User]:
    """`user("alice", "research")`: a member of tenants, or of their groups: "research/admins"."""

    def of(name: str, *tenants: str) -> User:
        groups = [f"/tenants/{tenant}" for tenant in tenants]
        return User(f"{api.url}/v3/pods", issuer.token(sub=f"id-{name}", preferred_username=name, groups=groups))

    return of


@pytest.fixture
def alice(user: Callable[..., User], clean: None) -> User:
    """A member of research, without pods."""
    return user("alice", "research")


@pytest.fixture
def owner(
    user: Callable[..., User],
    gateway: str,
    export: Path,
    postgresql: PostgreSQL,
    environment: dict[str, str],
    clean: None,
) -> Iterator[Callable[..., Owner]]:
    """`owner("alice", "research")`: a member of tenants, without pods, volumes and snapshots."""

    def of(name: str, *tenants: str) -> Owner:
        token = user(name, *tenants).token
        return Owner(f"{gateway}/v3/pods", token, export=export, tenant=tenants[0])

    yield of
    postgresql.sql("DELETE FROM snapshots; DELETE FROM volumes", environment["PODS_DATABASE_NAME"])
    for tenant in TENANTS:
        for path in (export / str(tenant["name"])).iterdir():
            shutil.rmtree(path)
