"""A host with the role backup, as tests have it: the role's program, with restic, PostgreSQL and an S3 server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from strata.roles import DIRECTORY
from strata_bench.s3 import REGION, S3Server, find_s3_server, s3_server
from strata_bench.services import PostgreSQL

PROGRAM = DIRECTORY / "backup" / "files" / "strata_backup.py"
PASSWORD = "a-password-of-the-repository"  # noqa: S105  # of repositories that tests make


@contextmanager
def backup_server(root: Path, bucket: str, secret_key: str) -> Iterator[S3Server]:
    """The endpoint of backups; a test is skipped where the server or restic is missing."""
    program = find_s3_server()
    if program is None:
        pytest.skip("the S3 server was not built: `strata doctor`")
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: apt-get install restic")
    with s3_server(program, root, bucket, secret_key) as server:
        yield server


@dataclass
class BackupHost:
    """A host with the role: its program and configuration.

    Args:
        root: its files.
        server: the endpoint.
        postgresql: its databases.
        items: what it backs up.
        environment: of restic, in place of what is right.
    """

    root: Path
    server: S3Server
    postgresql: PostgreSQL
    items: dict[str, str]
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.root / "work").mkdir(parents=True, exist_ok=True)
        environment = {
            "RESTIC_REPOSITORY": f"s3:{self.server.url}/{self.server.bucket}/lab/{self.root.name}",
            "RESTIC_PASSWORD": PASSWORD,
            "RESTIC_CACHE_DIR": str(self.root / "cache"),
            "AWS_ACCESS_KEY_ID": self.server.bucket,
            "AWS_SECRET_ACCESS_KEY": self.server.secret_key,
            "AWS_DEFAULT_REGION": REGION,
        }
        self.write(environment=environment | self.environment)

    def write(self, **changes: object) -> None:
        """Writes the configuration as the role does, with changes."""
        file = self.root / "configuration.json"
        content: dict[str, Any] = {
            "host": "services-1",
            "items": self.items,
            "exclude": [],
            "keep": {"daily": 7, "weekly": 5, "monthly": 12},
            "maximum_age_seconds": 3600,
            "directory": str(self.root / "work"),
            "metrics": str(self.root / "metrics.prom"),
            "restic_options": ["--option=s3.bucket-lookup=path"],
        }
        before = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(content | before | changes))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The program in a session of its own."""
        environment = {
            "PATH": f"{self.postgresql.binaries}:{os.environ['PATH']}",
            "PGHOST": str(self.postgresql.directory),
            "PGPORT": str(self.postgresql.port),
            "PGUSER": "admin",
            "STRATA_BACKUP_CONFIGURATION": str(self.root / "configuration.json"),
        }
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> str:
        """Output of a command that succeeds."""
        process = self.start(*arguments)
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        return output.strip()

    def refused(self, *arguments: str) -> str:
        """What a command that fails prints."""
        process = self.start(*arguments)
        output, errors = process.communicate()
        assert process.returncode == 1, output
        assert "Traceback" not in errors
        return errors.strip()

    def restore(self, item: str, target: object, *options: str, snapshot: str = "latest") -> tuple[str, ...]:
        """Arguments of a restore."""
        return ("restore", "--snapshot", snapshot, "--what", item, "--target", str(target), *options)

    def snapshots(self, item: str) -> list[str]:
        """Ids of an item's snapshots, the last one last."""
        return [snapshot["id"] for snapshot in json.loads(self.run("list")) if snapshot["item"] == item]
