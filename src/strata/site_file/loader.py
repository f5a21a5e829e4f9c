"""Reads a site file."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from strata.models.accelerator_kinds import kinds_of
from strata.models.finding import Finding
from strata.models.key_path import KeyPath, dotted
from strata.models.site import Site
from strata.site_file.checks import cross_check
from strata.site_file.document import Document, read_document
from strata.site_file.problems import MAXIMUM, Problem, SiteError
from strata.site_file.pydantic_errors import field_model, meant_paths, model_problems

PRUNING_ROUNDS = 4
"""How often wrong parts are cut off to check the rest."""


def load_site(path: Path) -> Site:
    """Reads and checks a site file.

    Args:
        path: the site.yaml.

    Raises:
        SiteError: with every error in it.
    """
    document = read_document(path)
    site, problems = check_document(document)
    if problems or site is None:
        raise SiteError(problems)
    return site


def check_document(document: Document) -> tuple[Site | None, list[Problem]]:
    """The site, if it can be built from what is right, and all errors in the order of lines."""
    problems = list(document.mistakes)
    cuts: set[KeyPath] = set()
    doubts: list[KeyPath] = []
    try:
        site: Site | None = Site.model_validate(document.data)
    except ValidationError as error:
        with kinds_of(document.data):  # where a key belongs is found by what its value may be
            more, paths = model_problems(document, error)
            doubts = meant_paths(document, error)
        problems += more
        site, cuts = _validate_rest(document.data, paths) if len(paths) < MAXIMUM else (None, set())
    if site is not None:
        for finding in cross_check(site, document.file.parent)[:MAXIMUM]:
            if not _doubtful(finding, cuts, doubts):
                why = finding.why
                if finding.other:
                    other = _original(finding.other, cuts)
                    why += f" (line {document.locate(other)[0].line}: {dotted(other)})"
                problems.append(document.problem(_original(finding.path, cuts), why, finding.fix))
    problems.sort(key=lambda p: (p.line or 0, p.column or 0))
    return site, problems


def _doubtful(finding: Finding, cuts: set[KeyPath], doubts: Iterable[KeyPath]) -> bool:
    """Whether a finding may come only from parts that were cut off, or that are at a wrong place."""
    parts = [_original(path, cuts) for path in (finding.path, *finding.reads)]
    return any(cut[: len(part)] == part or part[: len(cut)] == cut for cut in (*cuts, *doubts) for part in parts)


def _validate_rest(data: dict[str, object], paths: list[KeyPath]) -> tuple[Site | None, set[KeyPath]]:
    """The site without its wrong parts, and which parts these are."""
    cuts: set[KeyPath] = set()
    for _ in range(PRUNING_ROUNDS):
        cuts |= {_cut(_original(path, cuts)) for path in paths}
        if () in cuts:
            return None, cuts
        rest: dict[str, Any] = copy.deepcopy(data)
        # from the last list entry to the first, so that the others keep their places
        for cut in sorted(cuts, key=_order, reverse=True):
            _remove(rest, cut)
        try:
            return Site.model_validate(rest), cuts
        except ValidationError as error:
            details = error.errors(include_url=False)
            if len(details) >= MAXIMUM:
                break
            paths = [tuple(s for s in d["loc"] if s != "[key]") for d in details]
    return None, cuts


def _order(path: KeyPath) -> tuple[tuple[int, int, str], ...]:
    return tuple((0, step, "") if isinstance(step, int) else (1, 0, step) for step in path)


def _original(path: KeyPath, cuts: set[KeyPath]) -> KeyPath:
    """Undoes the shift of list entries that comes from the cuts before them."""
    if not cuts:
        return path
    original: KeyPath = ()
    for step in path:
        if isinstance(step, int):
            removed = sorted(c[-1] for c in cuts if c[:-1] == original and isinstance(c[-1], int))
            for index in removed:
                if index <= step:
                    step += 1
        original = (*original, step)
    return original


def _cut(path: KeyPath) -> KeyPath:
    """The smallest part around a wrong value that a site can do without."""
    for length in range(len(path), 0, -1):
        step = path[length - 1]
        if isinstance(step, int):
            return path[:length]
        model = field_model(path[: length - 1])
        field = model.model_fields.get(step) if model else None
        if model is not None and (field is None or not field.is_required()):
            return path[:length]
    return ()


def _remove(data: Any, path: KeyPath) -> None:
    for step in path[:-1]:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(data, dict):
        data.pop(path[-1], None)
    elif isinstance(data, list) and isinstance(path[-1], int) and path[-1] < len(data):
        del data[path[-1]]
