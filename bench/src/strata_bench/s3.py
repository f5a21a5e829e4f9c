"""A throw-away S3 server: the catalogue's own, on loopback."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from strata.catalogue.discovery import services
from strata.toolchain import cache, load_versions
from strata_bench.services import free_port
from strata_bench.waiting import responds

REGION = "us-east-1"


@dataclass(frozen=True)
class S3Server:
    """A running server of one bucket.

    Args:
        url: of the endpoint.
        folder: the bucket's files.
        bucket: its name, which is the id of its key too.
        secret_key: of that key.
        metrics_url: of its metrics.
    """

    url: str
    folder: Path
    bucket: str
    secret_key: str = field(repr=False)
    metrics_url: str = ""


def find_s3_server() -> Path | None:
    """The built server of the service with the site's S3 endpoint; None where the toolchain has not built it."""
    name = next(service.name for service in services() if service.s3_endpoint is not None)
    tool = cache.find(name, load_versions().components[name])
    return tool.path if tool else None


@contextlib.contextmanager
def s3_server(program: Path, root: Path, bucket: str, secret_key: str) -> Iterator[S3Server]:
    """A server with a folder that no member of another group may enter, as the tenants' on the NFS server.

    Raises:
        AssertionError: it does not start, or does not end when asked to.
    """
    folder = root / "buckets" / bucket
    folder.mkdir(parents=True)
    folder.chmod(0o2770)
    (root / "metadata").mkdir()
    (root / "key").write_text(secret_key)
    port, metrics = free_port(), free_port()
    environment = {
        "BUCKETS": str(root / "buckets"),
        "METADATA": str(root / "metadata"),
        "BUCKET": bucket,
        "SECRET_KEY_FILE": str(root / "key"),
        "REGION": REGION,
        "LISTEN": f"127.0.0.1:{port}",
        "METRICS": f"127.0.0.1:{metrics}",
    }
    with subprocess.Popen([program], env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            server = S3Server(url, folder, bucket, secret_key, f"http://127.0.0.1:{metrics}/metrics")
            responds(f"{server.url}/_health", process)
            yield server
        finally:
            process.terminate()
    assert process.returncode == 0
