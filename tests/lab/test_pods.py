"""Pods of users, by the unmodified tapipy: their life, what others may not, and kills."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from strata.access.https import load_balancer_address, site_session, trusted_authorities
from strata.catalogue.cluster_login import CLIENT, REDIRECT_URLS
from strata.catalogue.issuer import Issuer
from strata.catalogue.published import api_url
from strata.site.context import SiteContext
from strata.site.outputs import ImageOutputs
from strata.verify.tokens import Login, NewUser
from strata_bench.tapis_client import run_tapipy
from strata_bench.waiting import eventually
from strata_services.tapis_pods.service import SERVICE

START_SECONDS = 180
"""In which a pod runs whose image the node may have to pull."""
CLIENT_LINES = """
import json, os, time
from tapipy import errors
from tapipy.tapis import Tapis

url, ca, image = os.environ["STRATA_API_URL"], os.environ["STRATA_CA_FILE"], os.environ.get("IMAGE", "")
web = os.environ.get("WEB", "")
t = Tapis(base_url=url, verify=ca, username=os.environ["STRATA_USER"], password=os.environ["STRATA_PASSWORD"])
t.get_tokens()

def wait(pod_id, status, away=()):
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            pod = t.pods.get_pod(pod_id=pod_id)
            if pod.status == status:
                return pod
            state = f"is {pod.status}: {pod.status_container}"
        except errors.BaseTapyException as error:
            if error.response.status_code not in away:
                raise
            state = f"cannot be asked: {error}"
        assert time.monotonic() < deadline, f"{pod_id} {state}, and should be {status}"
        time.sleep(0.2)

def read(name):
    import requests
    deadline = time.monotonic() + START_SECONDS
    while True:
        answer = requests.get(f"https://{name}/", verify=ca, timeout=30)
        if answer.status_code == 200:
            return answer.text
        assert time.monotonic() < deadline, f"{name}: {answer.status_code}"
        time.sleep(0.2)

def refused(call, **arguments):
    try:
        call(**arguments)
    except errors.BaseTapyException as error:
        return [type(error).__name__, str(error.message)]

def small(pod_id, **fields):
    resources = {"cpu_request": 250, "cpu_limit": 1000, "mem_request": 256, "mem_limit": 256}
    networking = {"default": {"protocol": "http", "port": 8000}}
    return t.pods.create_pod(pod_id=pod_id, image=image, resources=resources, networking=networking, **fields)
""".replace("START_SECONDS", str(START_SECONDS))
SERVER = """
import http.server, json, os, socket

def reach(address):
    try:
        socket.create_connection(address, timeout=3).close()
        return "open"
    except OSError:
        return "closed"

status = dict(line.split(":", 1) for line in open("/proc/self/status") if line.startswith(("CapEff", "NoNewPrivs")))
targets = json.loads(os.environ["TARGETS"])
output = {key: value.strip() for key, value in status.items()}
output["token"] = os.path.exists("/var/run/secrets/kubernetes.io/serviceaccount/token")
output["reach"] = {name: reach(tuple(address)) for name, address in targets.items()}
text = json.dumps(output).encode()

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

print("listening", flush=True)
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""
LIFE = """
small(web, command=["python3", "-m", "http.server", "8000"], description="a server")
pod = wait(web, "AVAILABLE")
output = {"url": pod.networking.default.url, "page": "Directory listing" in read(pod.networking.default.url)}
output["logs"] = "GET / HTTP/1.1" in t.pods.get_pod_logs(pod_id=web).logs
t.pods.stop_pod(pod_id=web)
wait(web, "STOPPED")
output["kept"] = "GET / HTTP/1.1" in t.pods.get_pod_logs(pod_id=web).logs
t.pods.start_pod(pod_id=web)
wait(web, "AVAILABLE")
output["again"] = "Directory listing" in read(pod.networking.default.url)
output["shared"] = t.pods.set_pod_permission(pod_id=web, user=os.environ["COLLEAGUE"], level="READ").permissions
print(json.dumps(output))
"""
COLLEAGUE = """
output = {"status": t.pods.get_pod(pod_id=web).status, "list": [pod.pod_id for pod in t.pods.list_pods()]}
output["stop"] = refused(t.pods.stop_pod, pod_id=web)
output["credentials"] = refused(t.pods.get_pod_credentials, pod_id=web)
print(json.dumps(output))
"""
STRANGER = """
output = {"list": [pod.pod_id for pod in t.pods.list_pods()]}
reads = ("get_pod", "get_pod_logs", "get_pod_credentials", "get_pod_permissions")
for name in (*reads, "stop_pod", "restart_pod", "delete_pod"):
    output[name] = refused(getattr(t.pods, name), pod_id=web)
output["set"] = refused(t.pods.set_pod_permission, pod_id=web, user=os.environ["STRATA_USER"], level="ADMIN")
output["update"] = refused(t.pods.update_pod, pod_id=web, description="mine")
output["queue"] = refused(t.pods.create_pod, pod_id="labtheft", image=image, compute_queue=os.environ["OTHER"])
output["image"] = refused(t.pods.create_pod, pod_id="labtheft", image=image.replace("pod-base", "keycloak"))
output["name"] = refused(small, pod_id=web)
print(json.dumps(output))
"""
DELETE = """
for pod in t.pods.list_pods():
    t.pods.delete_pod(pod_id=pod.pod_id)
print("{}")
"""


@dataclass(frozen=True)
class Member:
    """A user of the site at a computer of their own.

    Args:
        context: the site.
        name: of the user.
        password: of the user.
        image: that tenants may run.
        kubectl: shows the service's log when something fails.
    """

    context: SiteContext
    name: str
    password: str = field(repr=False)
    image: str
    kubectl: Callable[..., str] = field(repr=False)

    def run(self, script: str, *pods: str, **variables: str) -> dict[str, Any]:
        """What a program with tapipy prints, as JSON.

        Args:
            script: after CLIENT_LINES.
            pods: whose names it reads.
            variables: of its environment.
        """
        printed = self.program(CLIENT_LINES + script, map(self.host, pods), **variables)
        output: dict[str, Any] = json.loads(printed)
        return output

    def host(self, pod: str) -> str:
        """Name of a pod."""
        settings = SERVICE.of(self.context.site)
        assert settings is not None
        return f"{pod}.{settings.hostname}.{self.context.site.domain}"

    def program(self, script: str, names: Iterable[str] = (), **variables: str) -> str:
        """What a program prints.

        Args:
            script: may import tapipy.
            names: that it connects to, beside the API's.
            variables: of its environment.
        """
        url, ca = api_url(self.context.site), trusted_authorities(self.context)
        assert isinstance(ca, str)
        known_names = [url.removeprefix("https://"), *names]
        hosts: Mapping[str, str] = dict.fromkeys(known_names, load_balancer_address(self.context))
        known = {"STRATA_API_URL": url, "STRATA_CA_FILE": ca, "STRATA_USER": self.name, "IMAGE": self.image}
        known |= {"STRATA_PASSWORD": self.password, **variables}
        done = run_tapipy(script, hosts, **known)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.log()}"
        return done.stdout

    def log(self) -> str:
        """The last lines of the API and of the reconciler."""
        options = ("--namespace=strata-system", "--selector=app.kubernetes.io/name=tapis-pods", "--prefix", "--tail=40")
        return self.kubectl("logs", *options)


def new_name(purpose: str) -> str:
    """Of a pod: free, whatever an earlier run of the test has left."""
    return f"lab{purpose}{secrets.token_hex(3)}"


@pytest.fixture(scope="module")
def member(
    context: SiteContext, new_user: NewUser, own_issuer: Issuer, images: ImageOutputs, kubectl: Callable[..., str]
) -> Iterator[Callable[[str], Member]]:
    """`member("research")`: a new member of a tenant, whose pods are deleted in the end."""
    if SERVICE.of(context.site) is None or len(context.site.platform.tenants) < 2:
        pytest.skip(f"site {context.site.name} has no platform.services.tapis_pods, or not two tenants")
    if not isinstance(trusted_authorities(context), str):
        pytest.skip(f"the names of site {context.site.name} have certificates of a public CA")
    made: list[Member] = []

    def of(tenant: str) -> Member:
        name, first = new_user(tenant)
        chosen = secrets.token_urlsafe(16)
        with site_session(context) as browser:
            Login(CLIENT, REDIRECT_URLS[0]).tokens(browser, own_issuer, name, first, chosen)
        made.append(Member(context, name, chosen, str(images.images["pod-base"]), kubectl))
        return made[-1]

    yield of
    for user in made:
        with suppress(AssertionError):
            user.run(DELETE)


@pytest.fixture(scope="module")
def ada(member: Callable[[str], Member], context: SiteContext) -> Member:
    """A member of the first tenant."""
    return member(context.site.platform.tenants[0].name)


def test_a_pod_is_made_read_stopped_started_shared_and_deleted(
    context: SiteContext, ada: Member, member: Callable[[str], Member], kubectl: Callable[..., str]
) -> None:
    first, second = (tenant.name for tenant in context.site.platform.tenants[:2])
    colleague, stranger = member(first), member(second)
    web = new_name("web")
    output = ada.run(LIFE, web, WEB=web, COLLEAGUE=colleague.name)
    shared = output.pop("shared")
    settings = SERVICE.of(context.site)
    assert settings is not None
    name = f"{web}.{settings.hostname}.{context.site.domain}"
    assert output == {"url": name, "page": True, "logs": True, "kept": True, "again": True}
    assert sorted(shared) == sorted([f"{ada.name}:ADMIN", f"{colleague.name}:READ"])

    seen = colleague.run(COLLEAGUE, WEB=web)
    assert (seen["status"], seen["list"]) == ("AVAILABLE", [web])
    assert seen["stop"][0] == seen["credentials"][0] == "ForbiddenError"

    refused = stranger.run(STRANGER, WEB=web, OTHER=first)
    assert refused.pop("list") == []
    assert (refused.pop("queue")[0], refused.pop("image")[0]) == ("BadRequestError", "BadRequestError")
    assert refused.pop("name") is not None
    assert {kind for kind, _ in refused.values()} == {"NotFoundError"}, refused

    ada.run(DELETE)
    selector = f"--selector=app.kubernetes.io/managed-by=strata-pods,strata.dev/pod={web}"

    def gone() -> bool:
        listed = kubectl("get", "pods,services,ingresses", f"--namespace={first}", selector, "--output=name")
        return not listed.strip()

    eventually(gone, START_SECONDS, "nothing of the pod is left")


def test_what_runs_in_a_pod_has_no_rights_and_reaches_no_service_of_the_site(
    context: SiteContext, ada: Member, kubectl: Callable[..., str]
) -> None:
    api_server = kubectl("get", "service", "kubernetes", "--namespace=default", "--output=jsonpath={.spec.clusterIP}")
    address = "{.items[0].status.podIP}"
    component = "--selector=app.kubernetes.io/name=tapis-pods,app.kubernetes.io/component=api"
    api = kubectl("get", "pods", "--namespace=strata-system", component, f"--output=jsonpath={address}")
    targets = {
        "Kubernetes": [api_server.strip(), 443],
        "metadata": ["169.254.169.254", 80],
        "Pods API": [api.strip(), 8080],
        "load balancer": [load_balancer_address(context), 443],
    }
    web = new_name("attack")
    script = f"""
small(web, command=["python3", "-c", {SERVER!r}], environment_variables={{"TARGETS": os.environ["TARGETS"]}})
pod = wait(web, "AVAILABLE")
print(read(pod.networking.default.url))
t.pods.delete_pod(pod_id=web)
"""
    output = ada.run(script, web, WEB=web, TARGETS=json.dumps(targets))
    assert (output["CapEff"], output["NoNewPrivs"], output["token"]) == ("0000000000000000", "1", False)
    assert output["reach"] == dict.fromkeys(targets, "closed")


def kill(kubectl: Callable[..., str], part: str) -> None:
    """Ends all pods of a part of the service at once, and waits until others are ready in their place."""
    labels = f"--selector=app.kubernetes.io/name=tapis-pods,app.kubernetes.io/component={part}"

    def ready() -> dict[str, bool]:
        listed = json.loads(kubectl("get", "pods", "--namespace=strata-system", labels, "--output=json"))["items"]
        return {
            pod["metadata"]["uid"]: any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in pod["status"].get("conditions", [])
            )
            for pod in listed
        }

    before = ready()
    assert before, f"{part} has no pod"
    kubectl("delete", "pods", "--namespace=strata-system", labels, "--grace-period=0", "--force", "--wait=false")

    def replaced() -> bool:
        after = ready()
        return not before.keys() & after.keys() and list(after.values()) == [True] * len(before)

    eventually(replaced, START_SECONDS, f"{part} is ready again, in a new pod")


def test_pods_survive_kills_of_the_reconciler_and_the_api(
    context: SiteContext, ada: Member, kubectl: Callable[..., str]
) -> None:
    """Nothing is lost, and nothing is duplicated."""
    tenant = context.site.platform.tenants[0].name

    def listed() -> set[str]:
        selector = "--selector=app.kubernetes.io/managed-by=strata-pods"
        return set(kubectl("get", "pods", f"--namespace={tenant}", selector, "--output=name").split())

    # a run that failed has left some
    before = listed()
    command = '["python3", "-m", "http.server", "8000"]'
    pods = {part: new_name(f"kill{part}") for part in ("reconciler", "api")}
    for part, pod in pods.items():
        ada.run(f'small("{pod}", command={command})\nprint("{{}}")')
        kill(kubectl, part)
    # the ingress controller learns of the new pod a moment after Kubernetes does
    script = "\n".join(f'wait("{pod}", "AVAILABLE", (502, 503, 504))\nread("{pod}." + DOMAIN)' for pod in pods.values())
    settings = SERVICE.of(context.site)
    assert settings is not None
    domain = f"{settings.hostname}.{context.site.domain}"
    ada.run(f'DOMAIN = "{domain}"\n{script}\nprint("{{}}")', *pods.values())
    assert listed() - before == {f"pod/pods-{pod}" for pod in pods.values()}
    ada.run(DELETE)
