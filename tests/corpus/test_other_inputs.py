"""What else a user gives: secrets, key paths, layers, and versions.yaml as a contributor edits it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from strata.errors import UserError
from strata.models.secret import Secret
from strata.site.paths import REPOSITORY
from strata.site.secrets.store import MAXIMUM_BYTES, read_declared
from strata.site_file.explain import explain
from strata.site_file.inventories import find_site
from strata.toolchain.versions import load_versions

from .conftest import bounded

# wall time states nothing on a loaded machine: `bounded` bounds processor time and memory
FUZZ = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
HERE = Path(__file__).parent
VERSIONS = (REPOSITORY / "versions.yaml").read_text()


def check_error(error: UserError) -> None:
    """A fix is there; the text is printable and short enough to read."""
    assert error.fix
    assert str(error).replace("\n", "").isprintable()
    assert len(str(error)) < 20_000


def secret(file: Path | str) -> Secret:
    return Secret(name="token", source="file", path=Path(file))


SECRETS = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\n", "is empty"),
    "latin-1": (b"caf\xe9", "not UTF-8"),
    "binary": (b"a\0b", "control characters"),
    "escape": (b"a\x1b[31m", "control characters"),
    "huge": (b"x" * (MAXIMUM_BYTES + 1), "more than"),
}


@pytest.mark.parametrize("case", SECRETS)
def test_secret_file(case: str, tmp_path: Path) -> None:
    """Reported by name, file and reason; never by content."""
    content, why = SECRETS[case]
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(UserError, match=why) as caught:
        read_declared(secret(file))
    assert str(file) in caught.value.message
    assert caught.value.fix
    assert len(str(caught.value)) < 1000
    assert str(caught.value).replace("\n", "").isprintable()


@pytest.mark.parametrize("content", [b"hunter2", b"hunter2\r\n", b"\xef\xbb\xbfhunter2\n"])
def test_right_secret_file(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    assert read_declared(secret(file)) == "hunter2"


@pytest.mark.parametrize("kind", ["missing", "directory", "pipe", "circle", "long", "nul", "no such user", "exposed"])
def test_no_secret_file(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    if kind == "directory":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "circle":
        file.symlink_to(file)
    elif kind == "exposed":
        file.write_text("hunter2")
        file.chmod(0o640)
    names = {"long": "/" + "x" * 5000, "nul": "/a\0b", "no such user": "~nobody-is-called-so/token"}
    with pytest.raises(UserError) as caught:
        read_declared(secret(names.get(kind, str(file))))
    assert caught.value.fix
    assert len(str(caught.value)) < 1000


@FUZZ
@given(content=st.binary(max_size=200))
def test_any_secret_file(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    try:
        with bounded(content):
            assert read_declared(secret(file))
    except UserError as error:
        check_error(error)


KEY_PATHS = (
    "",
    ".",
    "[0]",
    "cloud[",
    "cloud.flavors[99]",
    "cloud.flavors.-1",
    "cloud.flavors[" + "9" * 50 + "]",
    "name.x",
    *("a\0b", "\x1b[31m", "👍", "model_fields", "__class__", "x" * 100_000, "cloud.flavors." * 5_000),
)
LAB = find_site("lab")


@pytest.mark.parametrize("key", KEY_PATHS, ids=lambda key: ascii(key[:20]))
def test_key_path(key: str) -> None:
    try:
        assert explain(LAB, key).text()
    except UserError as error:
        check_error(error)


def test_key_of_a_section_that_is_not_there() -> None:
    with pytest.raises(UserError, match="this site has no platform"):
        explain(LAB, "platform.services.external_issuer.url")
    with pytest.raises(UserError) as caught:
        explain(LAB, "platform.services.external_issuer.ulr")
    assert caught.value.fix == "did you mean url?"


WORDS = (
    "cloud",
    "flavors",
    "gpu",
    "v100",
    "1",
    "0",
    "-1",
    "name",
    "roles",
    "labels",
    "strata",
    "dev/pool",
    "",
    "é",
    "\n",
)


@FUZZ
@given(
    steps=st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), max_size=8),
    mark=st.sampled_from([".", "[", "]"]),
)
@example(steps=["cloud", "flavors", "\x1f0"], mark=".")
def test_any_key_path(steps: list[str], mark: str) -> None:
    try:
        with bounded(mark.join(steps)):
            assert explain(LAB, mark.join(steps)).text()
    except UserError as error:
        check_error(error)


@pytest.mark.parametrize("layer", ["", "clouds", "Cloud", "cloud,hosts", "all", "../hosts", "é"])
def test_layer(layer: str, strata: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = strata("plan", "lab", "--layer", layer)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "'cloud', 'hosts', 'cluster', 'platform'" in done.stderr


EDITS = {
    "number": ("version: ", "version: 1.10 #", "1.10"),
    "date": ("openstack: ", "openstack: 2026-01-01 #", "2026-01-01"),
    "placeholder": ("{version}", "{versoin}", "{versoin}"),
    "brace": ("{version}", "{version", "Value error"),
    "key": ("packages:", "package:", "package"),
    "twice": ("packages:", "openstack: '1'\npackages:", "duplicate"),
    "tab": ("packages:\n", "packages:\n\t", "tab"),
    "alias": ("packages:", "a: *b\npackages:", "alias"),
    "tag": ("openstack: ", "openstack: !!python/name:os.system ", "tag"),
}


@pytest.mark.parametrize("case", EDITS)
def test_versions(case: str, tmp_path: Path) -> None:
    old, new, why = EDITS[case]
    assert old in VERSIONS
    file = tmp_path / "versions.yaml"
    file.write_text(VERSIONS.replace(old, new, 1))
    with pytest.raises(UserError) as caught:
        load_versions(file)
    assert why in caught.value.message
    assert "docs/toolchain.md" in str(caught.value.fix)


@FUZZ
@given(data=st.data())
def test_any_versions(data: st.DataObject, tmp_path: Path) -> None:
    begin = data.draw(st.integers(0, len(VERSIONS)))
    piece = st.one_of(st.text(max_size=10), st.sampled_from(["{", "}", ": ", "\n  ", "[" * 5000, "&a ", "*a", "\0"]))
    file = tmp_path / "versions.yaml"
    text = VERSIONS[:begin] + data.draw(piece) + VERSIONS[begin + data.draw(st.integers(0, 60)) :]
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        with bounded(text):
            load_versions.__wrapped__(file)
    except UserError as error:
        check_error(error)
