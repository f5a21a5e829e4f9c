"""Puts tables into the kernel and takes them out."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

TIMEOUT = 30


class NftError(Exception):
    """nft refused a ruleset.

    Args:
        stderr: what it reported.
    """

    def __init__(self, stderr: str) -> None:
        super().__init__(stderr.strip()[-2000:])


def _nft(*arguments: str, stdin: str | None = None) -> str:
    done = subprocess.run(
        ["nft", *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=TIMEOUT
    )
    if done.returncode != 0:
        raise NftError(done.stderr)
    return done.stdout


def replacement(tables: Mapping[tuple[str, str], str]) -> str:
    """One transaction that puts tables in the place of older ones, without a moment in between.

    Args:
        tables: text by family and name.
    """
    # adding first makes the deletion of a table that is not there succeed
    return "".join(f"add table {family} {name}\ndelete table {family} {name}\n" for family, name in tables) + "".join(
        tables.values()
    )


def apply(tables: Mapping[tuple[str, str], str]) -> None:
    """Replaces the tables.

    Raises:
        NftError: the kernel keeps the older ones.
    """
    _nft("-f", "-", stdin=replacement(tables))


def listing(tables: Mapping[tuple[str, str], str]) -> str:
    """What the kernel has under these names; empty where a table is gone."""
    outputs = []
    for family, name in tables:
        try:
            outputs.append(_nft("list", "table", family, name))
        except NftError:
            return ""
    return "".join(outputs)


def remove(families: tuple[str, ...], name: str) -> None:
    """Deletes the tables of that name where they are there."""
    _nft("-f", "-", stdin="".join(f"add table {family} {name}\ndelete table {family} {name}\n" for family in families))
