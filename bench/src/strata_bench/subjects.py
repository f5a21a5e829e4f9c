"""Subjects of the tests: which test files a name, or a change, asks for. scripts/test prints and runs them."""

from __future__ import annotations

import argparse
import difflib
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import yaml

from strata.site.paths import REPOSITORY

FILE = "tests/subjects.yaml"
CHANGED = "changed"


@dataclass(frozen=True)
class Subject:
    """What one name runs.

    Args:
        tests: files and folders of tests.
        sources: files, folders and patterns whose change asks for these tests.
    """

    tests: tuple[str, ...]
    sources: tuple[str, ...]


def subjects(repository: Path = REPOSITORY) -> dict[str, Subject]:
    """The subjects by name: those of the file, and each folder, service and role with tests."""
    by_name: dict[str, Subject] = {}
    for parent in ("tests/unit", "tests/contract"):
        for folder in sorted(path for path in (repository / parent).iterdir() if any(path.glob("test_*.py"))):
            before = by_name.get(folder.name, Subject((), ()))
            sources: tuple[str, ...] = (f"src/strata/{folder.name}", f"ansible/roles/{folder.name}")
            by_name[folder.name] = Subject((*before.tests, f"{parent}/{folder.name}"), sources)
    for folder in sorted((repository / "services").iterdir()):
        if (folder / "tests").is_dir():
            own = Subject((f"services/{folder.name}/tests",), (f"services/{folder.name}", f"helm/{folder.name}"))
            by_name[folder.name] = own
    for folder in sorted((repository / "ansible" / "roles").glob("*/tests")):
        role = folder.parent.name
        before = by_name.get(role, Subject((), ()))
        own = Subject((f"ansible/roles/{role}/tests",), (f"ansible/roles/{role}",))
        by_name[role] = Subject((*before.tests, *own.tests), tuple(dict.fromkeys((*before.sources, *own.sources))))
    written: Mapping[str, Mapping[str, list[str]]] = yaml.safe_load((repository / FILE).read_text(encoding="utf-8"))
    for name, entry in written.items():
        before = by_name.get(name, Subject((), ()))
        tests, sources = (*before.tests, *entry["tests"]), (*before.sources, *entry["sources"])
        by_name[name] = Subject(tuple(dict.fromkeys(tests)), tuple(dict.fromkeys(sources)))
    return by_name


def of_changed(files: Iterable[str], known: Mapping[str, Subject]) -> list[str]:
    """Names of the subjects whose tests or sources hold one of the files, in the order of `known`."""
    changed = list(files)
    return [
        name
        for name, subject in known.items()
        if any(_holds(place, file) for place in (*subject.tests, *subject.sources) for file in changed)
    ]


def _holds(place: str, file: str) -> bool:
    return file == place or file.startswith(f"{place}/") or fnmatch(file, place) or fnmatch(file, f"{place}/*")


def changed_files(since: str, repository: Path = REPOSITORY) -> list[str]:
    """Files that differ from a commit, and those that git does not know yet.

    Raises:
        ValueError: there is no such commit.
    """
    git = ["git", "-C", str(repository)]
    done = subprocess.run([*git, "diff", "--name-only", since, "--"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(
            f"--since {since}: git knows no such commit\n  fix: --since HEAD~1, or a name that git log shows"
        )
    new = subprocess.run(
        [*git, "ls-files", "--others", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    return [*done.stdout.splitlines(), *new.stdout.splitlines()]


def paths(names: Iterable[str], since: str, repository: Path = REPOSITORY) -> list[str]:
    """Test files and folders of the named subjects.

    Raises:
        ValueError: a name is not a subject, or nothing has changed.
    """
    known, selected = subjects(repository), list(names)
    if CHANGED in selected:
        files = changed_files(since, repository)
        changed = of_changed(files, known)
        if not changed:
            raise ValueError(
                f"--subject changed: no subject has a file that differs from {since}\n  fix: name a subject"
            )
        selected = [*(name for name in selected if name != CHANGED), *changed]
    for name in selected:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"--subject {name}: there is no such subject{hint}\n  fix: scripts/test --subject list")
    return list(dict.fromkeys(path for name in selected for path in known[name].tests))


def main() -> None:
    """Prints the paths of the named subjects, or with `list` the subjects and their tests."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--since", default="main")
    parser.add_argument("names", nargs="+")
    options = parser.parse_args()
    if options.names == ["list"]:
        for name, subject in sorted(subjects().items()):
            print(f"{name:<24} {' '.join(subject.tests)}")
        return
    try:
        print("\n".join(paths(options.names, options.since)))
    except ValueError as error:
        parser.exit(2, f"✗ {error}\n")


if __name__ == "__main__":
    main()
