"""The S3 store that a lab's backups go to: a container beside the controller, whose data outlives the site's hosts."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass
from urllib.parse import urlsplit

from strata import toolchain
from strata.access.https import named_session
from strata.access.podman import SITE_LABEL, container_label, container_status, exists, podman
from strata.catalogue.backup_items import ACCESS_KEY, PASSWORD, SECRET_KEY
from strata.errors import UserError
from strata.models.site import Site
from strata.progress import Progress
from strata.retry import wait_until
from strata.site.paths import SitePaths
from strata.site.secrets import SecretStore
from strata_lab import images
from strata_lab.copy_in import copy_in

STORE_OFFSET = 9
"""The store is the ninth address of the control network."""
SERVER = "object-storage"
"""Tool of versions.yaml: the S3 server of the catalogue."""
CERTIFICATE = "backup-store"
CONTENT_LABEL = "strata.backup_store"
ROLE = "backup-store"
START_SECONDS = 60.0
HUNG_SECONDS = 10.0
"""After which a store that does not respond is restarted."""
ANSWER_SECONDS = 2.0
FILES, DATA = "root/backup-store", "/srv/store"

# the server speaks plain HTTP on loopback; if either process ends, so does the container, and podman starts it again
START = f"""\
set -eu
mkdir -p "$BUCKETS/$BUCKET" "$METADATA"
trap 'kill $(jobs -p); wait; exit 0' TERM
/usr/local/bin/{SERVER} &
haproxy -db -f /{FILES}/haproxy.cfg &
wait -n || true
exit 1
"""
HAPROXY = f"""\
global
    maxconn 64
    ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend s3
    bind :443 ssl crt /{FILES}/server.pem
    default_backend s3
backend s3
    server s3 127.0.0.1:7480
"""


@dataclass(frozen=True)
class _Content:
    """What a store's container is made from.

    Args:
        image: podman's reference.
        server: path of the S3 server on this machine.
        files: path below the container's root to content.
        environment: of the S3 server.
    """

    image: str
    server: str
    files: dict[str, str]
    environment: dict[str, str]

    @property
    def digest(self) -> str:
        """Another one needs another container."""
        text = json.dumps([self.image, self.server, self.files, self.environment], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def container_name(site_name: str) -> str:
    """Name of the store's container, and of the volume with its data."""
    return f"strata-{site_name}-backup-store"


def store_address(site: Site) -> str | None:
    """Address of the store; None for a site without backups, or whose backups go elsewhere."""
    backup = site.hosts.backup
    control = site.cloud.control_network if site.cloud else None
    if backup is None or control is None:
        return None
    address, url = str(control[STORE_OFFSET]), urlsplit(backup.url)
    return address if (url.hostname, url.port or 443, url.path.strip("/")) == (address, 443, "") else None


def start(site: Site) -> bool:
    """Starts a store that was stopped; returns whether it did."""
    name = container_name(site.name)
    if store_address(site) is None or container_status(name) in (None, "running"):
        return False
    podman("start", name)
    return True


def up(site: Site, paths: SitePaths, network: str, progress: Progress) -> bool:
    """Has the store running and responding, with the key and the certificate of the site.

    Args:
        site: its backups go to the store.
        paths: of the site.
        network: podman's control network, which must exist.
        progress: shows what is being waited for.

    Returns:
        Whether anything had to be done.

    Raises:
        UserError: podman refused the container, or it does not respond.
    """
    address, name = store_address(site), container_name(site.name)
    assert address is not None
    content = _content(site, address, progress)
    status = container_status(name)
    if status is not None and container_label(name, CONTENT_LABEL) != content.digest:
        podman("rm", "--force", "--time", "10", name)
        status = None
    # one that was started a moment ago responds soon
    if status == "running" and not _wait(address, paths, HUNG_SECONDS, progress):
        return False
    if status == "running":
        progress.update(f"restarting {name}, which does not respond")
        podman("restart", "--time", "5", name)
    else:
        if status is None:
            progress.update(f"creating {name}")
            _create(site.name, name, network, address, content)
        podman("start", name)
    if _wait(address, paths, START_SECONDS, progress):
        raise UserError(
            f"the backup store ({address}) does not respond after {START_SECONDS:.0f} s",
            fix=f"`podman logs {name}` shows why; then run the same command again",
        )
    return True


def _content(site: Site, address: str, progress: Progress) -> _Content:
    assert site.cloud is not None
    backup = site.hosts.backup
    assert backup is not None
    secrets = SecretStore.open(site.name, site.secrets)
    # the server's only key is called like its bucket
    if secrets.get(ACCESS_KEY, lambda: backup.bucket) != backup.bucket:
        secrets.rotate(ACCESS_KEY, make=lambda: backup.bucket)
    secrets.get(PASSWORD)
    certificate = secrets.certificate(CERTIFICATE, (), (address,))
    files = {
        "start": START,
        "haproxy.cfg": HAPROXY,
        "server.pem": certificate.certificate + certificate.private_key,
        "secret-key": secrets.get(SECRET_KEY),
    }
    environment = {
        "BUCKETS": f"{DATA}/buckets",
        "METADATA": f"{DATA}/metadata",
        "BUCKET": backup.bucket,
        "REGION": backup.region,
        "SECRET_KEY_FILE": f"/{FILES}/secret-key",
        "LISTEN": "127.0.0.1:7480",
        "METRICS": "127.0.0.1:0",
    }
    return _Content(
        # the nodes' image has HAProxy
        images.ensure_node_image(site.cloud.images[0].release, progress),
        str(toolchain.ensure((SERVER,), progress)[SERVER].path),
        {f"{FILES}/{file}": text for file, text in files.items()},
        environment,
    )


def _create(site_name: str, name: str, network: str, address: str, content: _Content) -> None:
    if not exists("volume", name):
        podman("volume", "create", "--label", f"{SITE_LABEL}={site_name}", name)
    # it gets its name when it is complete: killed before that, the next call restarts
    new = f"{name}-new"
    podman("rm", "--force", "--ignore", new)
    try:
        podman(
            *("create", "--name", new, "--hostname", "backup-store", "--restart", "always"),
            *("--label", f"{SITE_LABEL}={site_name}", "--label", f"strata.role={ROLE}"),
            *("--label", f"{CONTENT_LABEL}={content.digest}", "--network", f"{network}:ip={address}"),
            *("--systemd=false", "--stop-signal", "SIGTERM", "--security-opt", "label=disable"),
            *("--cap-drop", "all", "--cap-add", "NET_BIND_SERVICE"),
            *("--ulimit", "nofile=4096:4096", "--ulimit", "nproc=1024:4096"),
            *("--volume", f"{name}:{DATA}"),
            *(part for key, value in content.environment.items() for part in ("--env", f"{key}={value}")),
            *(content.image, "/bin/bash", f"/{FILES}/start"),
        )
        podman("cp", content.server, f"{new}:/usr/local/bin/{SERVER}")
        copy_in(new, content.files)
        podman("rename", new, name)
    except BaseException:
        podman("rm", "--force", "--ignore", new)
        raise


def _wait(address: str, paths: SitePaths, seconds: float, progress: Progress) -> str | None:
    """Waits until the store responds; returns what is still waited for at the end."""
    return wait_until(lambda: None if _responds(address, paths) else f"HTTPS on {address}", seconds, progress)


def _responds(address: str, paths: SitePaths) -> bool:
    with contextlib.suppress(OSError), named_session(paths.ca_file, None) as session:
        return session.get(f"https://{address}/_health", timeout=ANSWER_SECONDS).ok
    return False
