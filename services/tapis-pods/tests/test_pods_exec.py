"""Commands in pods: output, status, times; who may run them, and where."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from strata.toolchain import tools_environment
from strata_bench.api_server import ApiServer
from strata_bench.service_processes import Service
from strata_bench.services import PostgreSQL, free_port, service_python
from strata_bench.waiting import eventually
from strata_services.tapis_pods.service import SERVICE

from .conftest import StartApi
from .test_pods_api import assert_refused
from .test_pods_service import ObjectsOf
from .users import SECONDS, User

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def exec_api(start_api: StartApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The API beside a server that runs commands."""
    directory = tmp_path_factory.mktemp("exec")
    python, program = service_python("tapis-pods"), Path(__file__).with_name("exec_server.py")
    kubernetes = free_port()
    process = subprocess.Popen([python, program, str(kubernetes)])
    try:

        def listens() -> bool:
            try:
                return requests.get(f"http://127.0.0.1:{kubernetes}/pods-any", timeout=5).ok
            except requests.ConnectionError:
                return False

        eventually(listens, SECONDS, "the substitute for Kubernetes listens")
        name = {"name": "test"}
        content = {
            "current-context": "test",
            "contexts": [name | {"context": {"cluster": "test", "user": "test"}}],
            "clusters": [name | {"cluster": {"server": f"http://127.0.0.1:{kubernetes}"}}],
            "users": [name | {"user": {"token": "none"}}],
        }
        (directory / "kubeconfig").write_text(yaml.safe_dump(content))
        with start_api(PODS_KUBECONFIG=str(directory / "kubeconfig")) as service:
            yield service
    finally:
        process.kill()
        process.wait(30)


@pytest.fixture
def ada(exec_api: Service, alice: User, postgresql: PostgreSQL, environment: dict[str, str]) -> User:
    """alice, whose pods web1 and away are AVAILABLE."""
    user = User(f"{exec_api.url}/v3/pods", alice.token)
    for name in ("web1", "away"):
        user.create(name)
    postgresql.sql("UPDATE pods SET status = 'AVAILABLE'", environment["PODS_DATABASE_NAME"])
    return user


def ran(user: User, *commands: list[str], **options: Any) -> dict[str, Any]:
    """The result of commands in web1."""
    answer = user("POST", "/web1/exec", {"commands": list(commands), **options})
    assert answer.status_code == 200, answer.text
    outcome: dict[str, Any] = answer.json()["result"]
    return outcome


def test_output_and_status_of_each_command(ada: User) -> None:
    outcome = ran(ada, ["sh", "-c", "echo out; echo err >&2"], ["printf", "%s", "a b&c=d\u00e9"], ["cat"])
    first, second, third = outcome["execution_results"]
    assert (first["stdout"], first["stderr"], first["success"]) == ("out\n", "err\n", True)
    assert first["command"] == ["sh", "-c", "echo out; echo err >&2"]
    assert second["stdout"] == "a b&c=d\u00e9"
    assert (third["stdout"], third["stderr"], third["success"]) == ("", "", True)
    assert (outcome["total_commands"], outcome["successful_commands"]) == (3, 3)
    assert first["timestamp"] <= second["timestamp"]
    single = ada("POST", "/web1/exec", {"commands": ["echo", "one"]}).json()["result"]
    assert [result["stdout"] for result in single["execution_results"]] == ["one\n"]
    actions = ada("GET", "/web1/logs").json()["result"]["action_logs"]
    assert [line.partition(": ")[2] for line in actions][-2:] == ["alice ran commands: 3", "alice ran commands: 1"]


def test_commands_without_success(ada: User) -> None:
    commands = (["sh", "-c", "exit 3"], ["true"])
    outcome = ran(ada, *commands)
    assert [result["success"] for result in outcome["execution_results"]] == [False]
    assert (outcome["total_commands"], outcome["successful_commands"]) == (2, 0)
    outcome = ran(ada, *commands, fail_on_non_success=False)
    assert [result["success"] for result in outcome["execution_results"]] == [False, True]
    (absent,) = ran(ada, ["/none"])["execution_results"]
    assert "failed to exec in container" in absent["stderr"]
    assert absent["success"] is False


def test_a_command_that_hangs_is_left(ada: User) -> None:
    begin = ["sh", "-c", "echo began; exec sleep 1000"]
    outcome = ran(ada, begin, ["echo", "after"], command_timeout=1, fail_on_non_success=False)
    hung, after = outcome["execution_results"]
    assert (hung["stdout"], hung["success"], after["stdout"]) == ("began\n", False, "after\n")
    assert "not waited for any longer than 1 s" in hung["stderr"]
    outcome = ran(ada, begin, ["echo", "after"], total_timeout=1, fail_on_non_success=False)
    assert [result["success"] for result in outcome["execution_results"]] == [False]
    assert outcome["total_commands"] == 2


def test_endless_output_ends(ada: User) -> None:
    (result,) = ran(ada, ["sh", "-c", "while :; do echo needle; done"])["execution_results"]
    assert len(result["stdout"]) == MEBIBYTE
    assert "more than 1048576 bytes" in result["stderr"]
    assert not result["success"]
    (result,) = ran(ada, ["head", "-c", "1000000", "/dev/zero"])["execution_results"]
    assert (len(result["stdout"]), result["success"]) == (1_000_000, True)


def test_commands_that_hang_hold_nothing_that_others_need(ada: User, user: Callable[..., User], tmp_path: Path) -> None:
    """More of them than the API has connections to the database; beyond a number they are refused."""
    end = tmp_path / "end"
    names = ("bob", "carl", "dan")
    for name in names:
        ada("POST", "/web1/permissions", {"user": name, "level": "ADMIN"})
    users = [ada, *(User(ada.url, user(name, "research").token) for name in names)] * 5
    body = {"commands": ["sh", "-c", f"until [ -e {end} ]; do sleep 0.1; done"], "command_timeout": 120}
    with ThreadPoolExecutor(20) as threads:
        hanging = [threads.submit(user, "POST", "/web1/exec", body) for user in users]
        try:
            eventually(lambda: sum(request.done() for request in hanging) == 10, SECONDS, "10 of 20 are refused")
            assert ada.pod("web1")["status"] == "AVAILABLE"
        finally:
            end.touch()
        answers = [request.result() for request in hanging]
    assert sum(answer.status_code == 200 for answer in answers) == 10
    refused = [answer for answer in answers if answer.status_code != 200]
    assert {answer.status_code for answer in refused} <= {429, 503}
    assert all("still run" in answer.text or "too many commands" in answer.text for answer in refused)


def test_who_may_run_them_and_where(ada: User, user: Callable[..., User], exec_api: Service) -> None:
    bob, body = User(ada.url, user("bob", "research").token), {"commands": ["id"]}
    assert_refused(bob("POST", "/web1/exec", body), 404)
    ada("POST", "/web1/permissions", {"user": "bob", "level": "USER"})
    assert_refused(bob("POST", "/web1/exec", body), 403, "ADMIN")
    assert_refused(ada("POST", "/away/exec", body), 409, "no container")
    ada.create("off", status_requested="OFF")
    assert_refused(ada("POST", "/off/exec", body), 409, "STOPPED")
    ran(ada, ["echo", "needle-in-a-command"])
    exec_api.logged(path="/v3/pods/web1/exec", method="POST")
    assert "needle" not in exec_api.log


@pytest.mark.parametrize(
    "fields",
    [
        {"commands": []}, {"commands": [[]]}, {"commands": ["ls", ["ls"]]}, {"commands": "ls"}, {"commands": ["a\0"]},
        {"commands": [["ls"]] * 21}, {"commands": ["ls"], "command_timeout": 0}, {"commands": ["ls"], "tty": True},
    ],
)  # fmt: skip
def test_wrong_fields(ada: User, fields: dict[str, Any]) -> None:
    assert_refused(ada("POST", "/web1/exec", fields), 400, "body.")


def test_a_policy_admits_pods_of_users_alone(
    api_server: ApiServer, objects_of: ObjectsOf, lab: Path, accounts: dict[str, Path], tmp_path: Path
) -> None:
    """Beside its Role, which cannot tell pods of users from notebooks."""
    policy = [item for item in objects_of(SERVICE, lab) if item["kind"].startswith("ValidatingAdmissionPolicy")]
    assert len(policy) == 2
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump_all(policy).replace(":serviceaccount:default:", ":serviceaccount:strata-system:"))
    api_server.kubectl("apply", "--filename", str(file))
    options = ("-n", "research", "exec")
    for name in ("pods-mine", "jupyter-alice"):
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "research"}}
        # without a node, whatever gives nodes to pods of other tests
        spec = {"containers": [{"name": "main", "image": "none"}], "schedulingGates": [{"name": "strata.dev/test"}]}
        file.write_text(yaml.safe_dump({**manifest, "spec": spec}))
        api_server.kubectl("apply", "--filename", str(file))
    where = ["kubectl", "--kubeconfig", str(accounts["api"]), *options]

    def refusal(name: str) -> str:
        done = subprocess.run(
            [*where, name, "--", "id"], env=tools_environment(), capture_output=True, text=True, check=False
        )
        return done.stderr

    try:
        # the server reads policies every now and then
        eventually(lambda: "pods of its users only" in refusal("jupyter-alice"), SECONDS, "the policy is in effect")
        assert "does not have a host assigned" in refusal("pods-mine")
    finally:
        api_server.kubectl("-n", "research", "delete", "pod", "pods-mine", "jupyter-alice", "--now")
