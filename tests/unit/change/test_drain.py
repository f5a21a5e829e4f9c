"""Workers are drained before their machines stop, and leave the cluster only when their disks go."""

from __future__ import annotations

import pytest

from strata.access.kubectl import Unanswered
from strata.engine.changes import drain
from strata.engine.changes.disruption import Approval, Disruption
from strata.engine.changes.drain import prepare_cloud
from strata.errors import UserError
from strata.progress import Silent
from strata.site.context import SiteContext

DISTURBED = [
    Disruption("worker-1", "resized", ("flavorId",)),
    Disruption("gpu-worker-1", "rebuilt", ("imageId",)),
    Disruption("services-1", "resized", ("flavorId",), ("postgresql",)),
]


@pytest.fixture
def context(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    """The lab with a cluster, two of whose workers are disrupted."""
    context.paths.kubeconfig.touch()
    monkeypatch.setattr(drain, "require_approval", lambda *_: DISTURBED)
    monkeypatch.setattr(drain, "_is_lost", lambda *_: False)
    return context


def test_a_resized_worker_is_drained_and_stays_a_member(context: SiteContext, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, ...]] = []
    monkeypatch.setattr(drain, "_members", lambda *_: {"worker-1", "gpu-worker-1", "control-1"})
    monkeypatch.setattr(drain, "_drain", lambda _, name, __: done.append(("drain", name)))
    monkeypatch.setattr(drain, "_reset", lambda _, name: done.append(("reset", name)))
    monkeypatch.setattr(drain, "_kubectl", lambda _, *arguments: done.append(arguments[:3]))
    assert prepare_cloud(context, Approval(), Silent()) == 1
    assert done == [
        ("drain", "gpu-worker-1"),
        ("reset", "gpu-worker-1"),
        ("delete", "node", "gpu-worker-1"),
        ("drain", "worker-1"),
    ]


@pytest.mark.parametrize(("lost_after", "drains"), [(0, 0), (1, 1)])
def test_a_lost_node_is_not_drained(
    lost_after: int, drains: int, context: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that the cluster knows to be lost, nor one that it finds lost while its pods do not end."""
    looks = iter([False] * lost_after + [True])
    drained: list[str] = []
    deleted: list[str] = []

    def stuck(_: SiteContext, name: str, __: object) -> None:
        drained.append(name)
        raise UserError(f"node {name} cannot be drained", fix="")

    monkeypatch.setattr(drain, "_members", lambda *_: {"worker-1"})
    monkeypatch.setattr(drain, "_is_lost", lambda *_: next(looks))
    monkeypatch.setattr(drain, "_drain", stuck)
    monkeypatch.setattr(drain, "_reset", lambda *_: None)
    monkeypatch.setattr(drain, "_kubectl", lambda _, *arguments: deleted.append(arguments[2]))
    assert drain.remove_nodes(context, ["worker-1"], Approval(), Silent()) == 1
    assert len(drained) == drains
    assert deleted == ["worker-1"]


def test_a_cluster_that_does_not_respond_is_given_up_only_with_yes(
    context: SiteContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unanswered(*_: object) -> set[str]:
        raise Unanswered("unreachable")

    monkeypatch.setattr(drain, "_members", unanswered)
    with pytest.raises(UserError, match="gpu-worker-1 cannot be drained: the cluster is unreachable"):
        prepare_cloud(context, Approval(frozenset({"worker-1"})), Silent())
    assert prepare_cloud(context, Approval(everything=True), Silent()) == 0
