"""Where the site's secrets are found: only where each must be. docs/secrets.md says the same to operators."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strata.engine.context import SiteContext
from strata.paths import REPOSITORY, cache_directory
from strata.verify.pods import Kubectl

from .commands import strata_line
from .needles import Needles, helm_release

UP_SECONDS = 600.0
"""Most that an unchanged `up` may take; it takes a twentieth on a machine with nothing else to do."""
SAMPLE_SECONDS = 0.02
"""Between two looks at the processes."""

IN_STATE = {
    "passphrase": {"passphrase"},  # opens the others; as an SSH key its only protection is its mode
    "clouds.yaml": {"openstack_admin_password"},  # openstacksdk has no other place for it
}
"""Files of the state directory to the secrets that may stand in them in the clear."""

IN_KUBERNETES = {
    "strata-system/ml-hub-database": {"ml_hub_database_password"},  # the pod mounts it as a file
    "strata-system/token-issuer": {"token_issuer_signing_key", "token_issuer_verify_secret"},  # likewise
    # Helm keeps a release's values, to compare and roll back: whoever reads Secrets there reads the ones above anyway
    "strata-system/sh.helm.release.v1.ml-hub": {"ml_hub_database_password"},
    "strata-system/sh.helm.release.v1.token-issuer": {"token_issuer_signing_key", "token_issuer_verify_secret"},
}
"""Secrets of the cluster, by the beginning of their name, to the site's secrets that may stand in them."""

IN_ENVIRONMENT = {
    "kine": {"kine_database_password"},  # its connection string; systemd reads it from a file of mode 0600
}
"""Commands to the secrets that may stand in their environment."""


@pytest.fixture(scope="module")
def needles(context: SiteContext) -> Needles:
    """Every generated secret, and the passphrase that they are encrypted with."""
    secrets = dict(context.secrets.known())
    assert len(secrets) >= 5
    return Needles(secrets | {"passphrase": context.paths.passphrase_file.read_text().strip()})


@dataclass
class Seen:
    """What a run's processes showed.

    Args:
        status: of the run.
        processes: how many were seen.
        leaks: place to secrets.
        output: what it printed.
    """

    status: int = -1
    processes: int = 0
    leaks: dict[str, set[str]] = field(default_factory=dict)
    output: str = ""


def descendants(root: int, parents: dict[int, int]) -> set[int]:
    """Processes below one, and itself."""
    found = {root}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def parents_of_all() -> dict[int, int]:
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                found[int(entry.name)] = int(Path(entry.path, "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
    return found


def read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # ended meanwhile
        return b""


@pytest.fixture(scope="module")
def up(context: SiteContext, needles: Needles, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """An `up` of what stands, with all command lines on the machine and its children's environments looked at."""
    seen = Seen()
    log = tmp_path_factory.mktemp("up") / "output"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            strata_line(context, "up"), stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT
        )
        deadline = time.monotonic() + UP_SECONDS
        looked: dict[int, bytes] = {}
        try:
            while process.poll() is None and time.monotonic() < deadline:
                parents = parents_of_all()
                below = descendants(process.pid, parents)
                for pid in parents:
                    arguments = read(Path(f"/proc/{pid}/cmdline"))
                    if looked.get(pid) == arguments:
                        continue
                    looked[pid] = arguments
                    name = Path(arguments.split(b"\0")[0].decode(errors="replace")).name
                    if names := needles.found(arguments):
                        seen.leaks[f"command line of {name}"] = names
                    if pid in below and (names := needles.found(read(Path(f"/proc/{pid}/environ")))):
                        seen.leaks[f"environment of {name}"] = names
                    seen.processes += pid in below
                time.sleep(SAMPLE_SECONDS)
        finally:
            if process.poll() is None:
                process.terminate()
            seen.status = process.wait(timeout=60)
    seen.output = log.read_text(errors="replace")
    return seen


def test_no_process_of_an_up_shows_a_secret(up: Seen, needles: Needles) -> None:
    """No command line on this machine and no environment of the engine's children holds a secret while `up` runs."""
    assert up.status == 0, up.output[-3000:]
    assert up.processes >= 5, "too few were seen for the answer to say anything"
    assert up.leaks == {}
    assert needles.found(up.output) == set()


def test_environments_hold_what_they_must(needles: Needles) -> None:
    """Of all processes on this machine, instances included, only those that must have a secret in their environment."""
    wrong: dict[str, set[str]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        names = needles.found(read(process / "cmdline")) | needles.found(read(process / "environ"))
        command = read(process / "comm").decode(errors="replace").strip()
        if extra := names - IN_ENVIRONMENT.get(command, set()):
            wrong[command] = extra
    assert wrong == {}


def state_files(context: SiteContext) -> Iterator[Path]:
    return (file for file in context.paths.root.rglob("*") if file.is_file() and not file.is_symlink())


def test_state_holds_secrets_encrypted(context: SiteContext, up: Seen, needles: Needles) -> None:
    """Logs, outputs and Pulumi's state, history and backups hold no secret in the clear; two files must, and say so."""
    assert up.status == 0
    files = {str(file.relative_to(context.paths.root)): file for file in state_files(context)}
    assert any("stacks" in name for name in files)
    assert any(name.startswith("logs/") for name in files)
    found = needles.found_in((name, file.read_bytes()) for name, file in files.items())
    assert {name: names - IN_STATE.get(name, set()) for name, names in found.items()} == {name: set() for name in found}
    assert set(found) >= set(IN_STATE), "the search does not find what is known to be there"


def test_store_and_stacks_are_encrypted(context: SiteContext) -> None:
    """The store is an ansible-vault file; each stack names the passphrase provider, and its secrets are ciphertext."""
    assert context.paths.secrets_file.read_text().startswith("$ANSIBLE_VAULT;1.1;AES256")
    stacks = list((context.paths.pulumi / ".pulumi" / "stacks").rglob(f"{context.site.name}.json"))
    assert stacks
    for file in stacks:
        deployment = json.loads(file.read_text())["checkpoint"]["latest"]
        assert deployment["secrets_providers"]["type"] == "passphrase"
        assert deployment["secrets_providers"]["state"]["salt"].startswith("v1:")
        text = json.dumps(deployment)
        assert '"plaintext"' not in text
    assert any('"ciphertext"' in file.read_text() for file in stacks)


def test_state_is_private(context: SiteContext, up: Seen) -> None:
    """After `up` every file of the state directory is 0600 or stricter, every directory 0700."""
    assert up.status == 0
    everything = [context.paths.root, *context.paths.root.rglob("*")]
    # another run may end and remove files meanwhile
    modes = {path: path.lstat().st_mode for path in everything if path.exists() and not path.is_symlink()}
    exposed = {str(path): oct(stat.S_IMODE(mode)) for path, mode in modes.items() if mode & 0o077}
    assert exposed == {}


def objects(context: SiteContext, kind: str, *arguments: str) -> list[str]:
    """Names of the site's podman objects."""
    command = ["podman", kind, *arguments, "--filter", f"label=strata.site={context.site.name}", "--format"]
    name = "{{.Names}}" if kind == "ps" else "{{.Name}}"
    return subprocess.run([*command, name], capture_output=True, text=True, check=True).stdout.split()


def test_podman_holds_no_secret(context: SiteContext, needles: Needles) -> None:
    """Containers (command, environment, labels, mounts), their images and networks say no secret."""
    containers = objects(context, "ps", "--all")
    assert containers
    described = subprocess.run(["podman", "inspect", *containers], capture_output=True, check=True).stdout
    images = sorted({container["Image"] for container in json.loads(described)})
    pictures = subprocess.run(["podman", "image", "inspect", *images], capture_output=True, check=True).stdout
    networks = subprocess.run(
        ["podman", "network", "inspect", *objects(context, "network", "ls")], capture_output=True, check=True
    ).stdout
    assert needles.found_in([("containers", described), ("images", pictures), ("networks", networks)]) == {}
    layers = {json.dumps(picture["GraphDriver"]["Data"]) for picture in json.loads(pictures)}
    roots = {root for layer in layers for root in json.loads(layer).get("UpperDir", "").split(":") if root}
    roots |= {root for layer in layers for root in json.loads(layer).get("LowerDir", "").split(":") if root}
    assert roots
    done = subprocess.run(
        ["grep", "-rlF", "--file=-", *sorted(roots)],
        input=needles.patterns(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
    assert done.returncode == 1, done.stderr[:500]


@pytest.fixture(scope="module")
def machines(context: SiteContext) -> dict[str, str]:
    """The controller and the instances that run on this machine: container to host name."""
    if context.site.cloud is None or context.site.cloud.deployment != "lab":
        pytest.skip("the site's machines are not on this one")
    found = {}
    for container in objects(context, "ps"):
        done = subprocess.run(["podman", "exec", container, "hostname"], capture_output=True, text=True, check=False)
        pid = subprocess.run(
            ["podman", "exec", container, "cat", "/proc/1/comm"], capture_output=True, text=True, check=False
        )
        if done.returncode == 0 and pid.stdout.strip() == "systemd":
            found[container] = done.stdout.strip()
    assert len(found) >= 2
    return found


def test_journals_hold_no_secret(machines: dict[str, str], needles: Needles) -> None:
    """The journals of the controller and of each instance hold no secret, in messages and in command lines."""
    wrong: dict[str, set[str]] = {}
    for container, name in machines.items():
        command = ["journalctl", "--no-pager", "--quiet", "--output=json", "--output-fields=MESSAGE,_CMDLINE"]
        with subprocess.Popen(["podman", "exec", container, *command], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            lines = 0
            for line in process.stdout:
                lines += 1
                if names := needles.found(line):
                    wrong.setdefault(name, set()).update(names)
        assert lines > 20, f"{name}: the journal has {lines} entries"
    assert wrong == {}


def test_files_of_machines_with_secrets_are_private(machines: dict[str, str], needles: Needles) -> None:
    """On controller and instances a file with a secret is closed to all but its owner and its service's group."""
    exposed: dict[str, list[str]] = {}
    total = 0
    for container, name in machines.items():
        done = subprocess.run(
            ["podman", "exec", "--interactive", container, "python3", "-c", FIND_FILES],
            input=needles.patterns(),
            capture_output=True,
            text=True,
            check=True,
        )
        for line in done.stdout.splitlines():
            total += 1
            mode, file = line.split(" ", 1)
            if int(mode, 8) & 0o007:
                exposed.setdefault(name, []).append(line)
            assert not file.startswith(NEVER), f"{name}: {file}"
    assert exposed == {}
    assert total >= 3, "the search does not find what is known to be there"


def test_cluster_holds_secrets_in_secrets_only(kubectl: Kubectl, needles: Needles) -> None:
    """No object of the cluster (ConfigMaps, pods, events, all others) holds a secret, but the Secrets that must."""
    kinds = kubectl("api-resources", "--verbs=list", "--output=name").split()
    others = [kind for kind in kinds if kind != "secrets"]
    assert {"configmaps", "pods", "events"} <= set(others)
    text = kubectl("get", ",".join(others), "--all-namespaces", "--output", "json", "--ignore-not-found")
    assert '"kind": "Pod"' in text
    assert needles.found(text) == set()


def test_secrets_of_the_cluster_hold_what_they_must(kubectl: Kubectl, needles: Needles) -> None:
    """Each Secret of the cluster, Helm's own included, holds the secrets that it is there for and no others."""
    found: dict[str, set[str]] = {}
    for secret in json.loads(kubectl("get", "secrets", "--all-namespaces", "--output", "json"))["items"]:
        name = f"{secret['metadata']['namespace']}/{secret['metadata']['name']}"
        helm = secret["type"] == "helm.sh/release.v1"
        for value in secret.get("data", {}).values():
            content = helm_release(value) if helm else base64.b64decode(value)
            found.setdefault(name, set()).update(needles.found(content))
    allowed = {name: next((v for key, v in IN_KUBERNETES.items() if name.startswith(key)), set()) for name in found}
    assert {name: names - allowed[name] for name, names in found.items() if names - allowed[name]} == {}
    assert any(found.values()), "the search does not find what is known to be there"


def test_repository_holds_no_secret(needles: Needles) -> None:
    """No object of the repository's history, reachable or not, holds a secret; no file of the work tree does."""
    with subprocess.Popen(
        ["git", "cat-file", "--batch", "--batch-all-objects", "--unordered"], cwd=REPOSITORY, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        tail, size = b"", 0
        found: set[str] = set()
        while block := process.stdout.read(2**22):
            size += len(block)
            found |= needles.found(tail + block)
            tail = block[-4096:]
    assert size > 2**20
    assert found == set()
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    contents = ((name.decode(), read(REPOSITORY / name.decode())) for name in files if name)
    assert needles.found_in(contents) == {}


def test_sites_share_no_secret(needles: Needles) -> None:
    """What the machine's sites share beside code and images, schemas and logs, holds no secret of this one."""
    cache = cache_directory()
    files = [file for part in ("logs/*", "openstack/*/schemas/*/*") for file in cache.glob(part)]
    assert any(file.suffix == ".sql" for file in files)
    assert needles.found_in((str(file.relative_to(cache)), read(file)) for file in files) == {}


def test_inventory_says_lookups(context: SiteContext, needles: Needles) -> None:
    """What Strata hands to Ansible are expressions, which are evaluated where a task needs them."""
    ansible = Path(sys.executable).parent / "ansible-inventory"
    command = [str(ansible), "-i", str(context.site_file), "--list"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True)
    assert b"strata_secret" in done.stdout
    assert needles.found(done.stdout) == set()


NEVER = ("/var/log/", "/var/tmp/", "/tmp/")  # noqa: S108  # looked at, not written to
"""Where a secret may not even stand in a private file."""
FIND_FILES = """
import os, re, sys
needles = re.compile(b"|".join(re.escape(line) for line in sys.stdin.buffer.read().split(b"\\n") if line))
for top in ("/etc", "/root", "/home", "/srv", "/usr/local", "/var/log", "/var/tmp", "/tmp"):
    for directory, _, names in os.walk(top):
        for name in names:
            path = os.path.join(directory, name)
            try:
                status = os.lstat(path)
                if not (status.st_mode & 0o170000) == 0o100000 or status.st_size > 2**20:
                    continue
                with open(path, "rb") as stream:
                    if needles.search(stream.read()):
                        print(oct(status.st_mode & 0o7777)[2:], path)
            except OSError:
                continue
"""
"""Run on a machine: prints mode and path of each file with a secret."""
