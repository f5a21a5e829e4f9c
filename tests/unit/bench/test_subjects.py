"""Subjects of the tests: each test file has one, each path exists, a change leads to the tests of what it touches."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY
from strata_bench.subjects import changed_files, of_changed, paths, subjects


def test_each_test_file_has_a_subject_and_each_path_exists() -> None:
    known = subjects()
    places = {path for subject in known.values() for path in subject.tests}
    assert [path for path in places if not (REPOSITORY / path).exists()] == []
    files = [
        *REPOSITORY.glob("tests/**/test_*.py"),
        *REPOSITORY.glob("services/*/tests/**/test_*.py"),
    ]
    assert files
    without = [
        str(file.relative_to(REPOSITORY))
        for file in files
        if not any(file.is_relative_to(REPOSITORY / place) for place in places)
    ]
    assert without == []


def test_each_source_exists() -> None:
    written = [source for subject in subjects().values() for source in subject.sources]
    # folders of the same name are looked for, not promised
    derived = ("src/strata/", "ansible/roles/", "helm/", "services/")
    missing = [source for source in written if not any(REPOSITORY.glob(source)) and not source.startswith(derived)]
    assert missing == []


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("services/keycloak/service.py", {"identity", "keycloak"}),
        ("src/strata/drift/manifest.py", {"drift"}),
        ("tests/lab/test_slurm.py", {"slurm"}),
        ("lab/src/strata_lab/network/agent.py", {"network", "faults"}),
        ("README.md", {"documents"}),
    ],
)
def test_a_change_asks_for_its_subjects(file: str, expected: set[str]) -> None:
    assert expected <= set(of_changed([file], subjects()))


def test_a_document_asks_for_nothing_on_the_lab() -> None:
    assert of_changed(["docs/backup.md"], subjects()) == ["documents"]


def test_paths_are_named_once() -> None:
    files = paths(["identity", "notebooks"], "main")
    assert files.count("tests/lab/test_login.py") == 1


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean network"):
        paths(["netwrok"], "main")


def test_changed_files_are_those_of_git(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    git("init", "--quiet")
    (tmp_path / "kept").touch()
    git("add", "kept")
    git("commit", "--quiet", "--message", "first")
    (tmp_path / "kept").write_text("changed")
    (tmp_path / "new").touch()
    assert changed_files("HEAD", tmp_path) == ["kept", "new"]
    with pytest.raises(ValueError, match="no such commit"):
        changed_files("nowhere", tmp_path)
