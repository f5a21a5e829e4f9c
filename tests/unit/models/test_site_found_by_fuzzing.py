"""Errors of the loader that fuzzing and the corpus found, one test each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from strata.site_file.loader import load_site
from strata.site_file.problems import Problem, SiteError

Reader = Callable[[Path], Sequence[Problem]]


def only(problems: Sequence[Problem]) -> Problem:
    assert len(problems) == 1, [str(p) for p in problems]
    return problems[0]


def test_no_escape_sequence_reaches_the_terminal(tmp_path: Path, problems_of: Reader) -> None:
    file = tmp_path / "site.yaml"
    file.write_text('name: a\ndomain: a.b\n"\\e[31mred\\n": {"\\u202e": 1}\nx:\ufeff: 1\n')
    assert all((p.key + p.why + p.fix + (p.value or "")).isprintable() for p in problems_of(file))


def test_a_key_of_megabytes_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("name: a\ndomain: a.b\n? " + "k" * 2_000_000 + "\n: 1\n")
    with pytest.raises(SiteError) as caught:
        load_site(file)
    assert len(str(caught.value)) < 1000


def test_a_number_too_long_for_a_machine_is_not_text(site_file: Callable[..., Path], problems_of: Reader) -> None:
    problem = only(problems_of(site_file(("name: research", f"name: {10**30}"))))
    assert problem.why == "must be text"
    assert "put it in quotes" in problem.fix


@pytest.mark.parametrize("name", ["1e3", "0x1F", "0o17", "010", ".5", "+5", ".nan"])
def test_what_editors_take_for_a_number_is_not_text(
    name: str, site_file: Callable[..., Path], problems_of: Reader
) -> None:
    problem = only(problems_of(site_file(("name: research", f"name: {name}"))))
    assert (problem.why, problem.value) == ("must be text", name)
    assert problem.fix == f'put it in quotes: "{name}"'


@pytest.mark.parametrize("mask", ["255.255.255.0", "0.0.0.255"])
def test_a_mask_is_not_a_prefix_length(mask: str, site_file: Callable[..., Path], problems_of: Reader) -> None:
    """The second is a router's wildcard, which ipaddress takes for a network too."""
    problem = only(problems_of(site_file(("10.77.0.0/24", f"10.77.0.0/{mask}"))))
    assert problem.fix == "did you mean 10.77.0.0/24?"


def test_an_address_is_not_a_domain(site_file: Callable[..., Path], problems_of: Reader) -> None:
    assert only(problems_of(site_file(("lab.strata.test", "10.0.0.1")))).key == "domain"


def test_the_rest_after_a_second_document_is_not_missed(site_file: Callable[..., Path], problems_of: Reader) -> None:
    assert only(problems_of(site_file(("cluster:\n", "---\ncluster:\n")))).why == "begins a second document"


def test_a_misplaced_section_is_not_missed(site_file: Callable[..., Path], problems_of: Reader) -> None:
    text = site_file().read_text()
    begin, end = text.index("cluster:\n"), text.index("platform:\n  tenants")
    section = "".join(f"  {line}" for line in text[begin:end].rstrip().splitlines(keepends=True))
    file = site_file((text[begin:end], section + "\n\n"))
    problem = only(problems_of(file))
    assert (problem.key, problem.fix) == ("hosts.cluster", "begin its line without indentation")


def test_a_misspelt_section_is_not_missed(site_file: Callable[..., Path], problems_of: Reader) -> None:
    problem = only(problems_of(site_file(("\ncluster:\n", "\nclutser:\n"))))
    assert problem.fix == "did you mean cluster?"


def test_a_wrong_role_does_not_make_the_others_wrong(site_file: Callable[..., Path], problems_of: Reader) -> None:
    problem = only(problems_of(site_file(("[kube_node, gpu_node]", "[kube-node, gpu_node]"))))
    assert problem.fix.startswith("did you mean kube_node? The choices: backup, kube_control_plane, ")


def test_a_secret_in_a_site_file_is_not_repeated(site_file: Callable[..., Path], problems_of: Reader) -> None:
    secret = "secrets: [{name: a, source: generated, value: hunter2}]\nplatform:\n  tenants"
    url = "external_issuer: {url: 'https://admin:hunter2@login.example.org'}\n    authenticator"
    file = site_file(("platform:\n  tenants", secret), ("keycloak: {hostname: login}\n    authenticator", url))
    problems = problems_of(file)
    assert len(problems) == 2
    assert not any("hunter2" in str(p) for p in problems)


def test_line_ends_of_unicode_are_refused(tmp_path: Path, problems_of: Reader) -> None:
    """libyaml counts them as line ends, editors do not: every line reported after one would be wrong."""
    file = tmp_path / "site.yaml"
    file.write_text("name: a\n# \u2028\ndomain: B\n")
    assert only(problems_of(file)).line == 2


def test_more_values_than_any_site_has_are_refused_early(tmp_path: Path, problems_of: Reader) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("name: a\ndomain: a.b\ncloud: {instances: [" + "{a: [1]}, " * 300_000 + "]}\n")
    assert "keys and values" in only(problems_of(file)).why
