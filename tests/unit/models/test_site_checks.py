"""Errors in form and type, several at once, and how many are reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site
from strata.site_file.problems import Problem, SiteError

from .conftest import Mistake

CASES: dict[str, Mistake] = {
    "misspelt key": (
        [("vcpus: 2,", "vcpu: 2,")],
        "cloud.flavors[0].vcpu",
        "known key",
        "did you mean vcpus?",
        "vcpu: 2",
    ),
    "unknown key": ([("domain:", "watermark: red\ndomain:")], "watermark", "known key", "keys here", "watermark: red"),
    "missing key": (
        [("{name: debian-12, distribution: debian, ", "{name: debian-12, ")],
        "cloud.images[0].distribution",
        "is missing",
        "add distribution",
        'release: "12"',
    ),
    "number for text": (
        [('release: "12"', "release: 12")],
        "cloud.images[0].release",
        "must be text",
        "quotes",
        "release: 12",
    ),
    "text for number": (
        [("vcpus: 2,", 'vcpus: "2",')],
        "cloud.flavors[0].vcpus",
        "whole number",
        "without quotes",
        'vcpus: "2"',
    ),
    "zero": (
        [("replicas: 1", "replicas: 0")],
        "platform.services.ml_hub.replicas",
        "at least 1",
        "at least 1",
        "replicas: 0",
    ),
    "true for number": (
        [("replicas: 1", "replicas: true")],
        "platform.services.ml_hub.replicas",
        "whole number",
        "2",
        "replicas: true",
    ),
    "empty section": (
        [("hosts:\n  nfs", "cluster_x:\nhosts:\n  nfs")],
        "cluster_x",
        "known key",
        "did you mean cluster?",
        "cluster_x",
    ),
    "decimal unit": (
        [("memory: 2 GiB", "memory: 2 GB")],
        "cloud.flavors[0].memory",
        "not a size",
        "did you mean 2 GiB?",
        "2 GB",
    ),
    "half a MiB": (
        [("memory: 2 GiB", "memory: 512 KiB")],
        "cloud.flavors[0].memory",
        "whole number of MiB",
        "MiB",
        "512 KiB",
    ),
    "upper-case host": (
        [("name: worker-1", "name: Worker-1")],
        "cloud.instances[2].name",
        "RFC 1123",
        "did you mean worker-1?",
        "Worker-1",
    ),
    "long host": (
        [("name: worker-1", f"name: {'w' * 64}")],
        "cloud.instances[2].name",
        "at most 63",
        "gpu-worker-1",
        "wwww",
    ),
    "domain without dot": (
        [("domain: lab.strata.test", "domain: lab")],
        "domain",
        "at least one dot",
        "ml.example.org",
        "domain: lab",
    ),
    "unknown role": (
        [("postgresql, kine", "postgres, kine")],
        "cloud.instances[0].roles[1]",
        "choices",
        "did you mean postgresql?",
        "postgres,",
    ),
    "unknown installer": (
        [("installer: kubeadm", "installer: kubeadmin")],
        "cluster.installer",
        "choices",
        "did you mean kubeadm?",
        "kubeadmin",
    ),
    "unknown accelerator": (
        [("disk: 200 GiB, accelerators: {v100: 2}", "disk: 200 GiB, accelerators: {V100: 2}")],
        "cloud.hypervisors[1].accelerators.V100",
        "knows",
        "did you mean v100?",
        "V100: 2",
    ),
    "another card with a similar name": (
        [("disk: 200 GiB, accelerators: {v100: 2}", "disk: 200 GiB, accelerators: {v100-sxm3: 2}")],
        "cloud.hypervisors[1].accelerators.v100-sxm3",
        "knows",
        "described by its identifiers, which `lspci -nn` shows",
        "v100-sxm3: 2",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_error(assert_found: Callable[[Mistake], None], case: str) -> None:
    assert_found(CASES[case])


def test_several_control_planes_need_a_load_balancer(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    campus = (REPOSITORY / "inventories" / "campus" / "site.yaml").read_text()
    (problem,) = problems_of(site_file(("[registry, load_balancer]", "[registry]"), text=campus))
    assert problem.key == "cloud.instances[3].roles"
    assert "several control planes need a host with the role load_balancer" in problem.why
    assert problem.fix == "give a host the role load_balancer"


def test_the_lab_has_no_errors(site_file: Callable[..., Path]) -> None:
    assert load_site(site_file()).name == "lab"


def test_all_errors_at_once(site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]) -> None:
    file = site_file(
        ("vcpus: 2,", "vcpu: 2,"),
        ("10.87.0.0/24", "10.77.0.0/24"),
        ("installer: kubeadm", "installer: kubeadmin"),
        ("catalogue.json", "models.json"),
        ("roles: [kube_node]}", "roles: [kube_node], rolls: 1}"),
        ("domain: lab.strata.test", "domain: lab.strata.test\ndomain: lab.strata.test"),
    )
    problems = problems_of(file)
    assert [p.key for p in problems] == [
        "domain",
        "cloud.networks[0].cidr",
        "cloud.flavors[0].vcpu",
        "cloud.instances[2].rolls",
        "cluster.installer",
        "platform.services.ml_hub.catalogue.file",
    ]
    assert [p.line for p in problems] == sorted(p.line or 0 for p in problems)


def test_a_wrong_entry_does_not_make_others_wrong(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    """The instances of a flavor with an error are not reported to use an unknown flavor."""
    problems = problems_of(site_file(("cpu.small, vcpus: 2", "cpu.small, vcpus: two")))
    assert [p.key for p in problems] == ["cloud.flavors[0].vcpus"]


def test_places_do_not_shift_behind_a_wrong_entry(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    edits = [("control-1, flavor", "Control-1, flavor"), ("worker-1, flavor: cpu.medium", "worker-1, flavor: cpu.tiny")]
    problems = problems_of(site_file(*edits))
    assert [p.key for p in problems] == ["cloud.instances[1].name", "cloud.instances[2].flavor"]


def test_many_errors_are_counted(site_file: Callable[..., Path]) -> None:
    text = "name: lab\ndomain: a.b\n" + "".join(f"key{i}: 1\n" for i in range(500))
    with pytest.raises(SiteError) as caught:
        load_site(site_file(text=text))
    assert len(caught.value.problems) == 500
    assert "… and 450 more" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "cloud: {flavors: [" + "{a: [1]},\n" * 20_000 + "]}",
        "cloud: {instances: [" + "{name: a, flavor: b, image: c, network: d, rolse: [kube_node]},\n" * 5_000 + "]}",
        "".join(f"key{i}: {{}}\n" for i in range(20_000)),
    ],
    ids=["wrong entries", "misspelt keys", "unknown keys"],
)
def test_thousands_of_errors(site_file: Callable[..., Path], text: str) -> None:
    with pytest.raises(SiteError, match="or more errors"):
        load_site(site_file(text="name: lab\ndomain: a.b\n" + text))


def test_key_of_a_certificate_is_a_provided_secret(
    site_file: Callable[..., Path], problems_of: Callable[[Path], Sequence[Problem]]
) -> None:
    certificate = "{source: files, certificate: c.pem, private_key: ingress_key}"
    file = site_file(("platform:\n", f"platform:\n  ingress: {{certificate: {certificate}}}\n"))
    (file.parent / "c.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    (problem,) = problems_of(file)
    assert problem.key == "platform.ingress.certificate.private_key"
    assert "ingress_key is not a secret that the operator provides" in str(problem)
