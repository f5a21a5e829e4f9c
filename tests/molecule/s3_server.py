"""Starts the catalogue's S3 server in a machine's container, with TLS in front: `s3_server.py SITE_FILE MACHINE`.

The site's `hosts.backup` states port, bucket and key.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

from strata.access.podman import podman
from strata.progress import Silent
from strata.site.context import SiteContext
from strata.toolchain import ensure
from strata_lab.copy_in import copy_in

TOOL = "object-storage"
INNER_PORT = 7481
SERVICE = """[Service]
ExecStart=/usr/local/sbin/object-storage
Environment=BUCKETS=/srv/s3/buckets METADATA=/srv/s3/metadata BUCKET={bucket} REGION={region}
Environment=SECRET_KEY_FILE=/srv/s3/key LISTEN=127.0.0.1:{inner} METRICS=127.0.0.1:0
"""
TLS_SERVICE = """[Service]
ExecStart=/usr/sbin/haproxy -db -f /srv/s3/haproxy.cfg
"""
TLS = """defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend s3
    bind :{port} ssl crt /srv/s3/server.pem
    default_backend s3
backend s3
    server s3 127.0.0.1:{inner}
"""


def start(context: SiteContext, machine: str) -> None:
    """Copies server, certificate and units into the container and starts them."""
    backup = context.site.hosts.backup
    assert backup is not None
    endpoint = urlsplit(backup.url)
    certificate = context.secrets.certificate("s3", [str(endpoint.hostname)], [])
    values = {"bucket": backup.bucket, "region": backup.region, "inner": INNER_PORT, "port": endpoint.port}
    name = f"strata-{context.site.name}-{machine}"
    podman("cp", str(ensure([TOOL], Silent())[TOOL].path), f"{name}:/usr/local/sbin/object-storage")
    files = {
        f"srv/s3/buckets/{backup.bucket}/.keep": "",
        "srv/s3/metadata/.keep": "",
        "srv/s3/key": context.secrets.get("backup_secret_key"),
        "srv/s3/server.pem": certificate.certificate + certificate.private_key,
        "srv/s3/haproxy.cfg": TLS.format(**values),
        "etc/systemd/system/test-s3.service": SERVICE.format(**values),
        "etc/systemd/system/test-s3-tls.service": TLS_SERVICE,
    }
    copy_in(name, files)
    podman("exec", name, "systemctl", "start", "test-s3", "test-s3-tls")


if __name__ == "__main__":
    file, host = sys.argv[1:]
    start(SiteContext.load(Path(file)), host)
