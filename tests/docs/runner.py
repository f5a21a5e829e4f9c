"""Runs blocks of commands in a shell, as a reader would type them."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .markdown import Block, missing_line

BLOCK_SECONDS = 900
"""In which the blocks of one document must be done, on a busy machine too."""


def run_blocks(blocks: Sequence[Block], directory: Path, environment: Mapping[str, str]) -> list[str]:
    """Runs the blocks of a document in one shell, in order, and shows what went otherwise than the document states.

    Args:
        blocks: of one document.
        directory: the reader's directory.
        environment: of the shell.
    """
    mark = secrets.token_hex(8)
    script = ["exec 2>&1"]
    steps = [(block, index, command) for block in blocks for index, command in enumerate(block.commands)]
    for number, (_, _, command) in enumerate(steps):
        script += [f"echo {mark} begin {number}", command.text, "ended=$?", f"echo; echo {mark} end {number} $ended"]
    done = subprocess.run(
        ["bash", "--noprofile", "--norc"],
        input="\n".join(script) + "\n",
        cwd=directory,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=BLOCK_SECONDS,
        check=False,
    )
    wrong: list[str] = []
    for number, (block, index, command) in enumerate(steps):
        _, _, rest = done.stdout.partition(f"{mark} begin {number}\n")
        output, separator, after = rest.partition(f"{mark} end {number} ")
        status = int(after.split(maxsplit=1)[0]) if separator else -1
        expected = block.status if index == len(block.commands) - 1 else 0
        if status != expected:
            wrong.append(f"{block.place}: `{command.text}` ended with {status}, not {expected}:\n{output[-1500:]}")
        elif (line := missing_line(command.output, output)) is not None:
            wrong.append(f"{block.place}: `{command.text}` did not print {line!r} but\n{output[-3000:]}")
    return wrong
