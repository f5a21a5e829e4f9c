"""The model server's image as `strata up` would build it, and servers of tiny models in it."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import requests

from strata.access.podman import exists, podman
from strata.images.build import LOCAL_PREFIX
from strata.images.filesystem_build import ensure_pod_bases
from strata.images.oci_layout import ensure_oci_layout
from strata.images.pod_images import folder_image
from strata.progress import Silent
from strata.site.paths import REPOSITORY
from strata_bench.services import free_port
from strata_bench.waiting import eventually

NAME = "inference-model-server"
FOLDER = REPOSITORY / "services/inference/images/model-server"
MAKER = REPOSITORY / "services/inference/tests/programs/tiny_models.py"
LIMITS = ("--ulimit=nofile=20000:20000", "--ulimit=nproc=20000:20000")
SECONDS = 180.0


def image() -> str:
    """A reference of the image."""
    source = folder_image(NAME, FOLDER, {}, ensure_pod_bases(["13"], Silent()))
    content = source.content_hash()
    layout, reference = ensure_oci_layout(source, content, Silent()), f"{LOCAL_PREFIX}/{NAME}:{content}"
    return reference if exists("image", reference) else podman("pull", "--quiet", f"oci:{layout}").strip()


def make_models(reference: str, directory: Path) -> None:
    """Makes the tiny models, by the image's own PyTorch."""
    podman(
        "run", "--rm", *LIMITS, f"--volume={MAKER}:/tiny_models.py:ro", f"--volume={directory}:/models", "--user=0",
        "--entrypoint=/bin/sh", reference, "-c", "python3 /tiny_models.py /models && chmod -R a+rX /models",
    )  # fmt: skip


@contextmanager
def model_server(
    reference: str, environment: Mapping[str, str], *options: str, command: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    """A server, with the rights that a pod has, once it is ready.

    Args:
        reference: of the image.
        environment: its settings.
        options: of `podman run`.
        command: arguments of the entrypoint.

    Returns:
        URL, and the container's name.
    """
    name, port = f"{NAME}-{uuid.uuid4().hex[:8]}", free_port()
    settings = {"MODEL_SERVER_PORT": str(port), **environment}
    podman(
        "run", "--detach", f"--name={name}", "--network=host", "--read-only", "--tmpfs=/tmp", "--cap-drop=all",
        *LIMITS, *options, *(f"--env={key}={value}" for key, value in settings.items()), reference, *command,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(
            lambda: requests.get(f"{url}/readyz", timeout=SECONDS).ok,
            SECONDS,
            "the model server is ready",
            hopeless=lambda: None if _runs(name) else f"it ended: {log(name)[-2000:]}",
        )
        yield url, name
    finally:
        podman("rm", "--force", "--time=15", name)


def log(name: str) -> str:
    """What a container wrote."""
    done = subprocess.run(["podman", "logs", name], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _runs(name: str) -> bool:
    return podman("inspect", "--format={{.State.Running}}", name).strip() == "true"
