"""Kinds of accelerators that a site describes by vendor and product id."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.installers.kolla.files import public_files
from strata.inventory.role_variables import role_host_variables
from strata.models.accelerator_catalogue import CATALOGUE, NVIDIA_RESOURCE
from strata.models.accelerator_kinds import EXAMPLE
from strata.models.extended_resources import by_resource, cluster_resources
from strata.models.gpu_nodes import node_labels, offered
from strata.models.site import Site
from strata.platform.nvidia_device_plugin import built_in_kinds, nvidia_kinds
from strata.site.paths import REPOSITORY
from strata.site_file.problems import Problem

Problems = Callable[[Path], Sequence[Problem]]
A10 = """
  - name: a10
    vendor_id: "10de"
    product_id: "2236"
    device_type: type-PF
    description: NVIDIA A10
    memory: 24 GiB
    compute_capability: "8.6"
"""
MI300X = """
  - name: mi300x
    vendor_id: "1002"
    product_id: 74a1
    device_type: type-PF
    description: AMD Instinct MI300X
    memory: 192 GiB
    resource: amd.com/gpu
"""
METAL = f"""
name: metal
domain: example.org
accelerator_kinds:{A10}{MI300X}
access: {{ssh: [192.0.2.1/32]}}
hosts:
  machines:
    - {{name: gpu-1, address: 192.0.2.2, roles: [kube_node, gpu_node], accelerators: {{a10: 2, v100: 1}}}}
    - {{name: gpu-2, address: 192.0.2.3, roles: [kube_node, gpu_node], accelerators: {{mi300x: 8}}}}
    - {{name: control-1, address: 192.0.2.4, roles: [kube_control_plane]}}
cluster: {{name: metal, datastore: etcd}}
platform:
  tenants: [{{name: research, quota: {{cpu: 1, memory: 1 GiB, accelerators: {{a10: 2, mi300x: 8}}}}}}]
"""
KOLLA = (REPOSITORY / "tests" / "corpus" / "complete" / "kolla.yaml").read_text()


def site(text: str = METAL, **changes: object) -> Site:
    return Site.model_validate({**yaml.safe_load(text), **changes})


@pytest.fixture
def problems_with(tmp_path: Path, problems_of: Problems) -> Callable[..., Sequence[Problem]]:
    """The problems of the site with words replaced."""

    def read(*edits: tuple[str, str], text: str = METAL) -> Sequence[Problem]:
        for old, new in edits:
            assert old in text, old
            text = text.replace(old, new)
        file = tmp_path / "site.yaml"
        file.write_text(text)
        return problems_of(file)

    return read


def test_the_site_is_right(problems_with: Callable[..., Sequence[Problem]]) -> None:
    assert problems_with() == ()


def test_a_site_has_the_built_in_kinds_and_its_own() -> None:
    kinds = site().accelerators
    assert [*kinds] == [*CATALOGUE, "a10", "mi300x"]
    a10, mi300x = kinds["a10"], kinds["mi300x"]
    assert (a10.pci_id, a10.compute_capability, a10.resource) == ("10de:2236", (8, 6), NVIDIA_RESOURCE)
    assert (a10.open_kernel_modules, a10.last_driver_branch) == (True, None)
    assert (mi300x.pci_id, mi300x.compute_capability, mi300x.resource) == ("1002:74a1", None, "amd.com/gpu")
    assert "a10" not in Site(name="other", domain="example.org").accelerators


def test_kubernetes_offers_them() -> None:
    metal = site()
    assert cluster_resources(metal) == ["amd.com/gpu", NVIDIA_RESOURCE]
    assert by_resource(metal, {"a10": 2, "v100": 1, "mi300x": 8}) == {NVIDIA_RESOURCE: 3, "amd.com/gpu": 8}
    assert node_labels(metal, {"a10": 2})["strata.dev/accelerator.a10"] == "true"
    assert offered(metal)["gpu-2"] == {"mi300x": 8}
    assert (nvidia_kinds(metal), built_in_kinds(metal)) == (["a10", "v100"], ["mi300x"])
    others = site(cluster={"name": "metal", "datastore": "etcd", "gpu_nodes": {"device_plugin": "none"}})
    assert (nvidia_kinds(others), built_in_kinds(others)) == ([], [])


def test_mig_profiles_of_a_described_kind_can_be_used() -> None:
    text = METAL.replace('compute_capability: "8.6"', 'compute_capability: "8.6"\n    mig_profiles: {1g.6gb: 4}')
    pools = [{"name": "cut", "nodes": ["gpu-1"], "sharing": {"mig": "1g.6gb"}}]
    metal = site(text, cluster={"name": "metal", "datastore": "etcd", "gpu_nodes": {"pools": pools}})
    assert offered(metal)["gpu-1"]["a10"] == 8


def test_nova_passes_them_through() -> None:
    files = public_files(site(KOLLA))
    alias = '{"vendor_id": "1002", "product_id": "74a1", "device_type": "type-PF", "name": "mi300x"'
    assert f"alias = {alias}" in files["config/nova.conf"]
    assert 'device_spec = {"vendor_id": "1002", "product_id": "74a1"}' in files["config/nova/nova-compute.conf"]


CASES: dict[str, tuple[str, str, str, str, str]] = {
    "vendor with 0x": ('"10de"', '"0x10de"', "[0].vendor_id", "hexadecimal", 'did you mean "10de"?'),
    "vendor in capitals": ('"10de"', "10DE", "[0].vendor_id", "hexadecimal", 'did you mean "10de"?'),
    "name of the vendor": ('"10de"', "nvidia", "[0].vendor_id", "hexadecimal", "10de"),
    "product without quotes": ('"2236"', "2236", "[0].product_id", "must be text", 'in quotes: "2236"'),
    "product with zeros": ('"2236"', "0036", "[0].product_id", "must be text", 'in quotes: "0036"'),
    "product like a power": ('"2236"', "1e04", "[0].product_id", "must be text", 'in quotes: "1e04"'),
    "both in one": (
        '"2236"',
        "10de:2236",
        "[0].product_id",
        "hexadecimal",
        'vendor_id: "10de" and product_id: "2236"',
    ),
    "three digits": ('"2236"', '"236"', "[0].product_id", "four lower-case hexadecimal digits", ""),
    "a built-in card": ('"2236"', '"1df6"', "[0].product_id", "the built-in kind v100s", "name v100s"),
    "another resource for an NVIDIA GPU": (
        '    vendor_id: "1002"\n    product_id: 74a1',
        '    vendor_id: "10de"\n    product_id: "2237"\n    compute_capability: "8.6"',
        "[1].resource",
        "always nvidia.com/gpu",
        "remove resource",
    ),
    "no compute capability": ('    compute_capability: "8.6"\n', "", "[0].compute_capability", "is missing", '"8.6"'),
    "capability of another vendor": (
        "resource: amd.com/gpu",
        'resource: amd.com/gpu\n    compute_capability: "9.0"',
        "[1].compute_capability",
        "for NVIDIA's cards",
        "remove compute_capability",
    ),
    "capability without quotes": ('"8.6"', "8.6", "[0].compute_capability", "must be text", 'in quotes: "8.6"'),
    "capability too old": ('"8.6"', '"3.5"', "[0].compute_capability", "at least 5.0", ""),
    "no resource": ("    resource: amd.com/gpu\n", "", "[1].resource", "is missing", "resource: amd.com/gpu"),
    "NVIDIA's resource": ("amd.com/gpu", "nvidia.com/gpu", "[1].resource", "nvidia.com", "amd.com/gpu"),
    "Kubernetes' resource": ("amd.com/gpu", "kubernetes.io/gpu", "[1].resource", "kubernetes.io", "amd.com/gpu"),
    "resource without domain": ("amd.com/gpu", "gpu", "[1].resource", "a domain, /", "amd.com/gpu"),
    "no memory": ("24 GiB", "0 GiB", "[0].memory", "at least one", "24576 MiB"),
    "name of a built-in kind": ("name: a10\n", "name: v100\n", "[0].name", "a built-in kind", "another name"),
    "name twice": ("name: mi300x\n", "name: a10\n", "[1].name", "duplicate: a10", ""),
    "name in capitals": ("name: a10\n", "name: A10\n", "[0].name", "lower-case", ""),
    "wrong type": (
        "device_type: type-PF\n    description: NVIDIA",
        "device_type: type-VF\n    description: NVIDIA",
        "[0].device_type",
        "choices",
        "",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_error_is_reported_at_its_key(case: str, problems_with: Callable[..., Sequence[Problem]]) -> None:
    old, new, key, why, fix = CASES[case]
    problems = [p for p in problems_with((old, new)) if p.key.startswith("accelerator_kinds")]
    assert [p.key for p in problems] == [f"accelerator_kinds{key}"], [str(p) for p in problems]
    assert why in problems[0].why
    assert fix in problems[0].fix
    assert problems[0].line


@pytest.mark.parametrize("case", [c for c in CASES if not c.startswith("name ") or c == "name in capitals"])
def test_an_error_in_a_description_makes_no_others_up(
    case: str, problems_with: Callable[..., Sequence[Problem]]
) -> None:
    old, new, *_ = CASES[case]
    assert [p.key.partition("[")[0] for p in problems_with((old, new))] == ["accelerator_kinds"]


@pytest.mark.parametrize(
    ("edit", "fix"),
    [
        (("accelerator_kinds:", "accelerator_kind:"), "did you mean accelerator_kinds?"),
        (("accelerator_kinds:", "unknown:"), None),
        ((METAL[METAL.index("accelerator_kinds:") : METAL.index("hosts:")], ""), None),
    ],
    ids=["misspelt", "another key", "missing"],
)
def test_kinds_of_a_misspelt_key_are_not_reported(
    edit: tuple[str, str], fix: str | None, problems_with: Callable[..., Sequence[Problem]]
) -> None:
    problems = problems_with(edit)
    if fix is None:
        assert {p.key.rpartition(".")[2] for p in problems} >= {"a10", "mi300x"}
    else:
        assert [(p.key, p.fix) for p in problems] == [("accelerator_kind", fix)]


def test_kinds_of_a_misplaced_key_are_not_reported(problems_with: Callable[..., Sequence[Problem]]) -> None:
    start, end = METAL.index("accelerator_kinds:"), METAL.index("access:")
    below = "".join(f"  {line}\n" for line in METAL[start:end].splitlines())
    problems = problems_with(text=METAL[:start] + METAL[end:].replace("hosts:\n", f"hosts:\n{below}"))
    assert [(p.key, p.fix) for p in problems] == [("hosts.accelerator_kinds", "begin its line without indentation")]


def test_the_same_identifiers_twice_are_reported(problems_with: Callable[..., Sequence[Problem]]) -> None:
    (problem,) = problems_with((A10, A10 + A10.replace("name: a10", "name: a10-again")))
    assert (problem.key, problem.why.split(" (")[0]) == ("accelerator_kinds[1].product_id", "duplicate: 10de:2236")


def test_the_fix_for_an_unknown_kind_works(problems_with: Callable[..., Sequence[Problem]]) -> None:
    start, end = METAL.index("accelerator_kinds:"), METAL.index("access:")
    text = METAL[:start] + METAL[end:].replace("{mi300x: 8}", "{v100: 8}").replace(", mi300x: 8", "")
    problems = problems_with(text=text)
    assert {p.key.rpartition(".")[2] for p in problems} == {"a10"}
    assert all("`lspci -nn`" in p.fix for p in problems)
    line = re.search(r"accelerator_kinds: \[\{.*\}\]", problems[0].fix)
    assert line is not None
    assert line[0] == EXAMPLE
    assert problems_with(text=f"{text}{line[0]}\n") == ()


def test_another_spelling_of_a_described_kind_is_suggested(problems_with: Callable[..., Sequence[Problem]]) -> None:
    (problem,) = problems_with(("accelerators: {a10: 2, v100: 1}", "accelerators: {A10: 2, a10: 2, v100: 1}"))
    assert problem.fix == "did you mean a10?"


def test_roles_get_their_identifiers() -> None:
    kolla = yaml.safe_load(KOLLA)
    kolla["hosts"]["machines"] = [{"name": "node-1", "address": "10.20.0.51", "roles": ["pci_passthrough"]}]
    variables: Any = role_host_variables("pci_passthrough", Site.model_validate(kolla), "node-1")
    assert {"kind": "mi300x", "id": "1002:74a1", "count": 2} in variables["pci_passthrough_cards"]


def test_only_the_model_reads_the_catalogue() -> None:
    """Another reader would not know the kinds that a site describes."""
    folders = [REPOSITORY / name for name in ("src", "lab", "bench", "ansible", "pulumi", "services")]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    models = {REPOSITORY / "src" / "strata" / name for name in ("models", "site_file")}
    reads = re.compile(r"from strata\.models\.accelerators import [^\n]*\bCATALOGUE\b|accelerators\.CATALOGUE")
    others = [f for f in files if models.isdisjoint(f.parents) and "tests" not in f.relative_to(REPOSITORY).parts]
    assert len(others) > 300
    assert [str(file) for file in others if reads.search(file.read_text())] == []
