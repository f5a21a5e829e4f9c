"""Where the site's secrets are found: only where each must be. docs/secrets.md states the same to operators."""

from __future__ import annotations

import base64
import io
import json
import os
import secrets
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from strata.access.podman import image_names, podman, site_images
from strata.images.build import LOCAL_PREFIX
from strata.platform.release_secrets import platform_state, secret_manifests
from strata.site.context import SiteContext
from strata.site.outputs import ImageOutputs
from strata.site.paths import REPOSITORY, cache_directory
from strata.site.secrets.store import new_secret
from strata.verify.pods import Kubectl

from .lab_site import require_lab
from .needles import Needles, helm_release
from .processes import read
from .site_secrets import (
    ADMINISTRATOR_KEY,
    IN_ENVIRONMENT,
    PKI,
    SSH_KEY,
    shows_no_secret,
    site_needles,
    watched_up,
)

PARALLEL = 2
"""Searches at once: the other tests are done long before these."""
PLANTED = "planted"
"""A secret that a test puts where its search must find it."""

IN_STATE = {
    "passphrase": {"passphrase"},  # opens the others; as an SSH key its only protection is its mode
    "ssh_key": {SSH_KEY},
    "kubeconfig": {ADMINISTRATOR_KEY},
    "clouds.yaml": {"openstack_admin_password"},  # openstacksdk has no other place for it
}
"""Files of the state directory to the secrets that may be in them in the clear."""


@pytest.fixture(scope="module")
def needles(context: SiteContext) -> Needles:
    """The site's secrets."""
    return site_needles(context)


@pytest.mark.nightly
def test_no_process_of_an_up_shows_a_secret(context: SiteContext, needles: Needles, tmp_path: Path) -> None:
    """No command line and no environment on this machine holds a secret while `up` runs every playbook and program of a
    site without drift. The repair of test_drift.py is watched in the same way."""
    assert shows_no_secret(context, watched_up(context, tmp_path / "up", needles, "--thorough"), needles)


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


def test_state_holds_secrets_encrypted(context: SiteContext, needles: Needles) -> None:
    """Logs, outputs and Pulumi's state, history and backups hold no secret in the clear; the files of IN_STATE
    must."""
    files = {str(file.relative_to(context.paths.root)): file for file in state_files(context)}
    assert any("stacks" in name for name in files)
    assert any(name.startswith("logs/") for name in files)
    by_file = needles.found_in((name, file.read_bytes()) for name, file in files.items())
    assert {name: names - IN_STATE.get(name, set()) for name, names in by_file.items()} == {
        name: set() for name in by_file
    }
    assert by_file.keys() >= IN_STATE.keys() & files.keys() >= {"passphrase", "ssh_key"}, (
        "the search does not find what is known to be there"
    )


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


def test_state_is_private(context: SiteContext) -> None:
    """Every file of the state directory is 0600 or stricter, every directory 0700."""
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


def test_podman_describes_no_secret(context: SiteContext, needles: Needles) -> None:
    """Containers (command, environment, labels, mounts) and networks say no secret."""
    containers = objects(context, "ps", "--all")
    assert containers
    described = subprocess.run(["podman", "inspect", *containers], capture_output=True, check=True).stdout
    networks = subprocess.run(
        ["podman", "network", "inspect", *objects(context, "network", "ls")], capture_output=True, check=True
    ).stdout
    assert needles.found_in([("containers", described), ("networks", networks)]) == {}


def pod_images(outputs: ImageOutputs) -> list[str]:
    """podman's own copies of the images that the site's pods run; from these are packed those in its registry."""
    used = {image.digest for image in outputs.images.values()}
    packed = {
        index.parent.name: json.loads(index.read_text())["manifests"][0]["digest"]
        for index in (cache_directory() / "images" / "pods").glob("*/index.json")
    }
    tags = {content for content, digest in packed.items() if digest in used}
    listed = image_names(f"{LOCAL_PREFIX}/*")
    tagged = [reference for reference in listed if reference.rpartition(":")[2] in tags]
    # several contents may have given the same image: a comment in a Containerfile is one
    kept = {packed[reference.rpartition(":")[2]] for reference in tagged}
    assert kept == used, "podman has no longer what the images in the cache were packed from"
    return tagged


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """An image with a secret in its configuration and in a file; its name, and the secret."""
    value = new_secret()
    content = json.dumps({"authorization": base64.b64encode(f"user:{value}".encode()).decode()}).encode()
    with tarfile.open(tmp_path / "layer.tar", "w") as archive:
        entry = tarfile.TarInfo("etc/planted.json")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    name = f"localhost/strata-planted:{secrets.token_hex(3)}"
    podman("import", "--quiet", "--change", f"ENV TOKEN={value}", str(tmp_path / "layer.tar"), name)
    yield name, value
    podman("rmi", name)


def test_images_hold_no_secret(
    context: SiteContext, images: ImageOutputs, needles: Needles, planted: tuple[str, str]
) -> None:
    """Images of the site's machines, resized instances and pods hold no secret, in their configuration and in the files
    of their layers as podman keeps them; one is found in the image that has one in both."""
    name, value = planted
    search = Needles({**needles.secrets, PLANTED: value})
    machines = json.loads(podman("inspect", *objects(context, "ps", "--all")))
    names = {machine["Image"] for machine in machines} | {*site_images(context.site.name), *pod_images(images), name}
    pictures = {picture["Id"]: picture for picture in json.loads(podman("image", "inspect", *sorted(names)))}
    planted_id = podman("image", "inspect", "--format", "{{.Id}}", name).strip()
    described = ((identity, json.dumps(picture).encode()) for identity, picture in pictures.items())
    assert search.found_in(described) == {planted_id: {PLANTED}}
    layers = {identity: picture["GraphDriver"]["Data"] for identity, picture in pictures.items()}
    roots = {
        root
        for layer in layers.values()
        for root in (layer["UpperDir"] + ":" + layer.get("LowerDir", "")).split(":")
        if root
    }
    ordered = sorted(roots)

    def grep(roots: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["grep", "-rlF", "--file=-", *roots],
            input=search.patterns(),
            capture_output=True,
            text=True,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )

    with ThreadPoolExecutor(PARALLEL) as pool:
        done = list(pool.map(grep, (part for part in (ordered[n::PARALLEL] for n in range(PARALLEL)) if part)))
    files = [file for process in done for file in process.stdout.splitlines()]
    assert files == [f"{layers[planted_id]['UpperDir']}/etc/planted.json"]
    # 1: nothing was found; 2: something could not be read
    assert max(process.returncode for process in done) <= 1, "".join(process.stderr for process in done)[:500]


@pytest.fixture(scope="module")
def machines(context: SiteContext) -> dict[str, str]:
    """The controller and the instances that run on this machine: container to host name."""
    require_lab(context)
    by_container = {}
    for container in objects(context, "ps"):
        done = subprocess.run(["podman", "exec", container, "hostname"], capture_output=True, text=True, check=False)
        pid = subprocess.run(
            ["podman", "exec", container, "cat", "/proc/1/comm"], capture_output=True, text=True, check=False
        )
        if done.returncode == 0 and pid.stdout.strip() == "systemd":
            by_container[container] = done.stdout.strip()
    assert len(by_container) >= 2
    return by_container


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


def test_files_of_machines_with_secrets_are_private(
    context: SiteContext, machines: dict[str, str], needles: Needles
) -> None:
    """On controller and instances a file with a secret is closed to all but its owner and its service's group."""
    exposed: dict[str, list[str]] = {}
    files: set[str] = set()

    def search(container: str) -> str:
        done = subprocess.run(
            ["podman", "exec", "--interactive", container, "sh", "-c", FIND_FILES],
            input=needles.patterns(),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    with ThreadPoolExecutor(PARALLEL) as pool:
        outputs = pool.map(search, machines)
    for name, output in zip(machines.values(), outputs, strict=True):
        for line in output.splitlines():
            mode, file = line.split(" ", 1)
            files.add(file)
            if int(mode, 8) & 0o007:
                exposed.setdefault(name, []).append(line)
            assert not file.startswith(NEVER), f"{name}: {file}"
    assert exposed == {}
    known = {f"{PKI}/sa.key", "/etc/kubernetes/admin.conf"} if context.site.cluster is not None else set()
    assert len(files) >= 3
    assert files >= known, "the search does not find what is known to be there"


def test_cluster_holds_secrets_in_secrets_only(kubectl: Kubectl, needles: Needles) -> None:
    """No object of the cluster (ConfigMaps, pods, events, all others) holds a secret, but the Secrets that must."""
    kinds = kubectl("api-resources", "--verbs=list", "--output=name").split()
    others = [kind for kind in kinds if kind != "secrets"]
    assert {"configmaps", "pods", "events"} <= set(others)
    text = kubectl("get", ",".join(others), "--all-namespaces", "--output", "json", "--ignore-not-found")
    assert '"kind": "Pod"' in text
    assert needles.found(text) == set()


def test_secrets_of_the_cluster_hold_what_they_must(context: SiteContext, kubectl: Kubectl, needles: Needles) -> None:
    """Each Secret of the cluster, Helm's own included, holds what a service declares in it and no other secret."""
    by_name: dict[str, set[str]] = {}
    allowed = {
        f"{namespace}/{name}": {key for v in manifest["data"].values() for key in needles.found(base64.b64decode(v))}
        for (namespace, name), manifest in secret_manifests(platform_state(context)).items()
    }
    for secret in json.loads(kubectl("get", "secrets", "--all-namespaces", "--output", "json"))["items"]:
        name = f"{secret['metadata']['namespace']}/{secret['metadata']['name']}"
        helm = secret["type"] == "helm.sh/release.v1"
        for value in secret.get("data", {}).values():
            content = helm_release(value) if helm else base64.b64decode(value)
            by_name.setdefault(name, set()).update(needles.found(content))
    assert {name: extra for name, names in by_name.items() if (extra := names - allowed.get(name, set()))} == {}
    assert any(by_name.values()), "the search does not find what is known to be there"


def test_repository_holds_no_secret(needles: Needles) -> None:
    """No object of the repository's history, reachable or not, holds a secret; no file of the work tree does."""
    with subprocess.Popen(
        ["git", "cat-file", "--batch", "--batch-all-objects", "--unordered"], cwd=REPOSITORY, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        tail, size = b"", 0
        leaked: set[str] = set()
        while block := process.stdout.read(2**22):
            size += len(block)
            leaked |= needles.found(tail + block)
            tail = block[-4096:]
    assert size > 2**20
    assert leaked == set()
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


def test_inventory_has_lookups(context: SiteContext, needles: Needles) -> None:
    """What Strata hands to Ansible are expressions, which are evaluated where a task needs them."""
    ansible = Path(sys.executable).parent / "ansible-inventory"
    command = [str(ansible), "-i", str(context.site_file), "--list"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True)
    assert b"strata_secret" in done.stdout
    assert needles.found(done.stdout) == set()


NEVER = ("/var/log/", "/var/tmp/", "/tmp/")  # noqa: S108  # looked at, not written to
"""Where a secret may not even be in a private file."""
FIND_FILES = """
LC_ALL=C grep -rlZF --devices=skip --exclude-dir=uv --file=- /etc /root /home /srv /usr/local /var/log /var/tmp /tmp |
  xargs --null --no-run-if-empty stat --format '%a %n'
"""
"""Run on a machine: prints mode and path of each file with a secret. uv's cache of published packages, some GiB, is
this machine's, mounted."""
