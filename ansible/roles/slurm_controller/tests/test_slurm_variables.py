"""Variables of the Slurm roles, and errors of a site file about Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.cloud.role_ports import security_group_arguments
from strata.inventory import Template
from strata.inventory.role_variables import role_variables
from strata.models.site import Site
from strata.site.outputs import CloudOutputs, InstanceOutput
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError

ROLES = ("slurm_common", "slurm_controller", "slurm_node")
FILE = REPOSITORY / "inventories" / "lab-slurm" / "site.yaml"
TEXT = FILE.read_text()
MACHINES = """
name: metal
domain: metal.example.org
access: {ssh: [198.51.100.1/32]}
hosts:
  machines:
    - {name: head-1, address: 192.0.2.1, roles: [slurm_controller]}
    - {name: fat-1, address: 192.0.2.2, roles: [slurm_node], cpus: 64, memory: 9 GiB, accelerators: {u250: 1, a100: 4}}
    - {name: thin-1, address: 192.0.2.3, roles: [slurm_node], cpus: 32, memory: 64 GiB}
  slurm: {partitions: [{name: batch}, {name: gpu, hosts: [fat-1], maximum_minutes: 60, maximum_hosts: 1}]}
"""
AMD_KIND = """
accelerator_kinds:
  - name: mi300x
    vendor_id: "1002"
    product_id: 74a1
    device_type: type-PF
    description: AMD Instinct MI300X
    memory: 192 GiB
    resource: amd.com/gpu
hosts:
"""


@pytest.fixture(scope="module")
def site() -> Site:
    return load_site(FILE)


@pytest.fixture(scope="module")
def outputs(site: Site) -> CloudOutputs:
    assert site.cloud is not None
    instances = {
        i.name: InstanceOutput(id=i.name, name=i.name, address=f"10.78.0.{n}", flavor=i.flavor, roles=tuple(i.roles))
        for n, i in enumerate(site.cloud.instances, start=11)
    }
    return CloudOutputs(instances=instances, networks={})


def written(tmp_path: Path, text: str) -> Site:
    (tmp_path / "site.yaml").write_text(text)
    return load_site(tmp_path / "site.yaml")


@pytest.mark.parametrize("role", ROLES)
def test_variables_are_arguments_of_the_role(role: str, site: Site, outputs: CloudOutputs) -> None:
    root = REPOSITORY / "ansible" / "roles" / role
    options = yaml.safe_load((root / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((root / "defaults" / "main.yml").read_text())
    variables = role_variables(role, site, outputs)
    assert set(defaults) == set(options)
    assert all(option.get("description") for option in options.values())
    required = {name for name, option in options.items() if option.get("required")}
    assert required <= set(variables) <= set(options)
    assert isinstance(role_variables(role, site, None), dict), "before the cloud layer"


def test_instances_have_the_size_of_their_flavor(site: Site, outputs: CloudOutputs) -> None:
    variables: dict[str, Any] = role_variables("slurm_common", site, outputs)
    assert variables["slurm_common_controller"] == {"name": "batch-1", "address": "10.78.0.11"}
    card = {"name": "gpu", "type": "v100", "count": 2}
    assert variables["slurm_common_nodes"] == [
        {"name": "node-1", "address": "10.78.0.12", "cpus": 2, "memory": 1843, "cards": []},
        {"name": "gpu-node-1", "address": "10.78.0.13", "cpus": 4, "memory": 3686, "cards": [card]},
    ]
    assert variables["slurm_common_partitions"] == [
        {"name": "batch", "hosts": ["node-1", "gpu-node-1"], "limits": {"DefaultTime": 60, "MaxTime": 1440}},
        {"name": "gpu", "hosts": ["gpu-node-1"], "limits": {"MaxTime": 2880}},
    ]


def test_keys_are_lookups(site: Site, outputs: CloudOutputs) -> None:
    assert role_variables("slurm_common", site, outputs)["slurm_common_munge_key"] == Template(
        "{{ lookup('strata_secret', 'slurm_munge_key') }}"
    )
    assert isinstance(role_variables("slurm_controller", site, outputs)["slurm_controller_jwt_key"], Template)


def test_machines_have_what_the_site_file_lists(tmp_path: Path) -> None:
    variables: dict[str, Any] = role_variables("slurm_common", written(tmp_path, MACHINES), None)
    fat, thin = variables["slurm_common_nodes"]
    assert (fat["cpus"], fat["memory"]) == (64, 9 * 1024 * 9 // 10)
    assert {card["name"]: card["count"] for card in fat["cards"]} == {"fpga": 1, "gpu": 4}
    assert thin["cards"] == []
    assert variables["slurm_common_memory_per_cpu"] == 9 * 1024 * 9 // 10 // 64
    assert variables["slurm_common_partitions"][1]["limits"] == {"MaxTime": 60, "MaxNodes": 1}


def test_srun_has_its_range_of_ports_between_slurm_hosts(site: Site) -> None:
    assert site.cloud is not None
    groups = security_group_arguments(site, site.cloud)
    rules = [rule for rule in groups["slurm_controller"].ingress if rule.port == 60001]
    assert {(rule.group, rule.last) for rule in rules} == {("slurm_controller", 60063), ("slurm_node", 60063)}
    assert not [rule for rule in groups["slurm_node"].ingress if rule.source is not None]


CASES: dict[str, tuple[Sequence[tuple[str, str]], str, str, str]] = {
    "unknown host": ([("hosts: [fat-1]", "hosts: [fat-2]")], "partitions[1].hosts[0]", "no host", "fat-1"),
    "host without the role": ([("[fat-1]", "[head-1]")], "partitions[1].hosts[0]", "does not have", "add slurm_node"),
    "duplicate host": ([("[fat-1]", "[fat-1, fat-1]")], "partitions[1].hosts[1]", "duplicate", "remove"),
    "duplicate partition": ([("name: gpu", "name: batch")], "partitions[1].name", "duplicate", "another"),
    "partition default": ([("name: batch", "name: default")], "partitions[0].name", "all partitions", "batch"),
    "no such card": ([("hosts: [fat-1]", "accelerator: v100")], "partitions[1].accelerator", "and v100", "remove"),
    "two selections": ([("[fat-1]", "[fat-1], accelerator: a100")], "partitions[1].accelerator", "by name", "one of"),
    "default above maximum": (
        [("maximum_minutes: 60", "maximum_minutes: 60, default_minutes: 61")],
        "partitions[1].default_minutes",
        "more than maximum_minutes",
        "at most 60",
    ),
    "node in no partition": ([("[{name: batch}, ", "[")], "machines[2].roles", "no partition", "add it"),
    "two controllers": (
        [("[slurm_node], cpus: 32", "[slurm_node, slurm_controller], cpus: 32")],
        "machines[2].roles",
        "already on head-1",
        "remove slurm_controller",
    ),
    "no size": ([("cpus: 32, ", "")], "machines[2].roles", "no cpus", "slurmd -C"),
    "two kinds of GPUs": ([("{u250: 1, a100: 4}", "{a100: 4, t4: 1}")], "machines[1].roles", "a100 and t4", "one kind"),
    "GPUs of AMD": (
        [("\nhosts:\n", AMD_KIND), ("{u250: 1, a100: 4}", "{mi300x: 4}")],
        "machines[1].roles",
        "AMD Instinct MI300X",
        "remove slurm_node",
    ),
    "node of the cluster too": (
        [("[slurm_node], cpus: 32", "[slurm_node, kube_node], cpus: 32")],
        "machines[2].roles",
        "both would allocate",
        "remove one",
    ),
    "no section": ([(MACHINES[MACHINES.index("  slurm:") :], "")], "machines[0].roles", "does not say", "partitions"),
    "no controller": ([("[slurm_controller]", "[nfs_server]")], "machines[1].roles", "slurm_controller", "give a host"),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_names_key_reason_and_fix(case: str, tmp_path: Path) -> None:
    edits, key, why, fix = CASES[case]
    text = MACHINES
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    with pytest.raises(SiteError) as caught:
        written(tmp_path, text)
    problems = [p for p in caught.value.problems if p.key.endswith(key) and why in p.why]
    assert problems, [str(p) for p in caught.value.problems]
    assert fix in problems[0].fix
    assert problems[0].line is not None


def test_releases_of_instances_must_agree(tmp_path: Path) -> None:
    second = '    - {name: debian-12, distribution: debian, release: "12"}\n'
    text = TEXT.replace(second, second + second.replace("12", "13")).replace(
        "gpu.v100.2, image: debian-12", "gpu.v100.2, image: debian-13"
    )
    with pytest.raises(SiteError, match=r"is Debian 13, other Slurm hosts are Debian 12") as caught:
        written(tmp_path, text)
    assert [p.key for p in caught.value.problems] == ["cloud.instances[2].image"]


def test_a_node_of_an_unknown_flavor_is_not_reported_as_without_size(tmp_path: Path) -> None:
    with pytest.raises(SiteError) as caught:
        written(tmp_path, TEXT.replace("flavor: gpu.v100.2,", "flavor: gpu.v100.3,"))
    assert [p.key for p in caught.value.problems] == [
        "cloud.instances[2].flavor",
        "hosts.slurm.partitions[1].accelerator",  # no other host has this kind
    ]
