"""The playbooks of Kubespray that a change of the site needs."""

from __future__ import annotations

import pytest

from strata.errors import UserError
from strata.installers.kubespray.commands import Record, check_nodes, next_runs

BEFORE = Record(
    version="2.31.0",
    kubernetes="1.35.4",
    configuration="a",
    variables={"w1": "labels"},
    nodes={"c1": ("kube_control_plane",), "c2": ("kube_control_plane",), "w1": ("kube_node",)},
)


def change(**values: object) -> Record:
    return BEFORE.model_copy(update=values)


@pytest.mark.parametrize(
    ("desired", "expected"),
    [
        (BEFORE, []),
        (change(configuration="b"), ["cluster"]),
        (change(variables={"w1": "other labels"}), ["cluster"]),
        (change(configuration="b", nodes={**BEFORE.nodes, "w2": ("kube_node",)}), ["cluster"]),
        (change(nodes={**BEFORE.nodes, "w2": ("kube_node",)}), ["scale"]),
        (change(nodes={**BEFORE.nodes, "c3": ("kube_control_plane",)}), ["cluster"]),
        (change(nodes={**BEFORE.nodes, "w1": ("kube_node", "gpu_node")}), ["cluster"]),
        (change(nodes={n: r for n, r in BEFORE.nodes.items() if n != "w1"}), ["remove-node"]),
        (
            change(nodes={"c1": ("kube_control_plane",), "c2": ("kube_control_plane",), "w2": ("kube_node",)}),
            ["remove-node", "scale"],
        ),
        (change(kubernetes="1.36.0"), ["upgrade-cluster"]),
        (change(version="2.32.0"), ["upgrade-cluster"]),
        (change(names="b"), ["cluster --tags coredns"]),
        (change(names="b", nodes={**BEFORE.nodes, "w2": ("kube_node",)}), ["scale", "cluster --tags coredns"]),
        (change(names="b", configuration="b"), ["cluster"]),
    ],
)
def test_a_change_runs_the_playbook_that_it_needs(desired: Record, expected: list[str]) -> None:
    shown = [" --tags ".join((run.playbook, *run.tags)) for run in next_runs(BEFORE, desired)]
    assert shown == expected
    assert [run.playbook for run in next_runs(Record(), desired)] == ["cluster"]


@pytest.mark.parametrize(
    ("unfinished", "nodes", "expected"),
    [
        ("cluster", BEFORE.nodes, ["cluster"]),
        ("upgrade-cluster", BEFORE.nodes, ["cluster"]),
        ("scale", BEFORE.nodes, ["cluster"]),
        ("scale", {**BEFORE.nodes, "w2": ("kube_node",)}, ["scale"]),
        ("cluster", {**BEFORE.nodes, "w2": ("kube_node",)}, ["cluster"]),
        ("remove-node", BEFORE.nodes, ["cluster"]),
        ("remove-node", {n: r for n, r in BEFORE.nodes.items() if n != "w1"}, ["remove-node"]),
    ],
)
def test_a_killed_run_is_repeated_whatever_the_site_file_then_has(
    unfinished: str, nodes: dict[str, tuple[str, ...]], expected: list[str]
) -> None:
    done = change(unfinished=unfinished)
    assert [run.playbook for run in next_runs(done, change(nodes=nodes))] == expected


def test_a_removed_host_is_not_logged_into() -> None:
    (removal,) = next_runs(BEFORE, change(nodes={n: r for n, r in BEFORE.nodes.items() if n != "w1"}))
    assert (removal.variables["node"], removal.variables["reset_nodes"]) == ("w1", False)


@pytest.mark.parametrize(
    ("desired", "message"),
    [
        (change(kubernetes="1.37.0"), "one minor version at a time"),
        (change(kubernetes="1.34.1"), "one minor version at a time"),
        (change(nodes={n: r for n, r in BEFORE.nodes.items() if n != "c1"}), "cannot remove the first control plane"),
    ],
)
def test_what_kubespray_cannot_do_is_refused(desired: Record, message: str) -> None:
    with pytest.raises(UserError, match=message):
        next_runs(BEFORE, desired)


def test_the_majority_of_etcd_stays() -> None:
    """Refused from the site file alone: the cloud layer would delete the instances first."""
    three = change(nodes={f"c{n}": ("kube_control_plane",) for n in (1, 2, 3)})
    check_nodes(three, {name: three.nodes[name] for name in ("c1", "c2")})
    with pytest.raises(UserError, match="c2, c3: etcd's majority would be removed, 2 of 3 control planes"):
        check_nodes(three, {"c1": three.nodes["c1"]})
    with pytest.raises(UserError, match="c1: Kubespray cannot remove the first control plane"):
        check_nodes(three, {name: three.nodes[name] for name in ("c2", "c3")})
