#!/usr/bin/python3
"""Replaces podman: records each call in $FAKE_PODMAN_DIRECTORY and answers from the files there."""

import json
import os
import sys
from pathlib import Path

directory = Path(os.environ["FAKE_PODMAN_DIRECTORY"])
arguments = sys.argv[1:]
command = arguments[3:]
with (directory / "calls").open("a") as calls:
    calls.write(json.dumps(arguments) + "\n")
failure = directory / f"fail.{command[0]}"
once = directory / f"fail-once.{command[0]}"
if failure.exists() or once.exists():
    sys.stderr.write((failure if failure.exists() else once).read_text())
    once.unlink(missing_ok=True)
    sys.exit(125)
if command[0] == "cp":
    (directory / "stdin.cp").write_bytes(sys.stdin.buffer.read())
ANSWERS = {
    ("container", "inspect"): "status",
    ("network", "ls"): "networks",
    ("volume", "ls"): "volumes",
    ("images", "--format"): "images",
    ("ps", "--all"): "containers",
    ("ps", "--format"): "containers",
}
answer = directory / ANSWERS.get((command[0], command[1]) if len(command) > 1 else ("", ""), "nothing")
if answer.exists():
    print(answer.read_text())
