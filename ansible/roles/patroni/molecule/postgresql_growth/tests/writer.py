"""Starts a unit on the first server that writes numbers, and notes the acknowledged ones with the time."""

from __future__ import annotations

import subprocess

CONTAINER = "strata-molecule-postgresql-growth-database-2"
UNIT = "test-writer"
ACKNOWLEDGED = "/var/tmp/acknowledged"  # noqa: S108  # of a container that lives for the test
DATABASE = "records"
# a number is never written again: one whose acknowledgement was lost may be stored
SCRIPT = f"""
number=0
while true; do
  number=$((number + 1))
  if echo "insert into written values ($number)" | psql -U postgres -d {DATABASE} -qXAt -v ON_ERROR_STOP=1; then
    echo "$number $(date +%s.%N)" >> {ACKNOWLEDGED}
  fi
  sleep 0.1
done
"""  # noqa: S608  # fixed names


def in_container(*command: str) -> str:
    """Output of a command in the first server's container."""
    return subprocess.run(
        ("podman", "--runtime", "/usr/sbin/runc", "exec", CONTAINER, *command),
        capture_output=True,
        text=True,
        check=True,
    ).stdout


if __name__ == "__main__":
    create = "create table if not exists written (number bigint primary key)"
    in_container("psql", "-U", "postgres", "-d", DATABASE, "-c", create)
    in_container("systemd-run", "--unit", UNIT, "/bin/bash", "-c", SCRIPT)
