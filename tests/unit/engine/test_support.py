"""What `strata up` refuses, and what `status` then states repairs the site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from strata.cli.lifecycle_choice import lifecycle_of
from strata.engine.up_steps import up_steps
from strata.errors import UserError
from strata.layers import Layer
from strata.observe import nothing_seen
from strata.observe.status import print_status, site_status
from strata.report import build_report
from strata.report.model import State
from strata.report.page import render_page
from strata.site.context import SiteContext
from strata.site.support import refusal, remedy
from strata.site_file.inventories import find_site


def load(site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path))
    return SiteContext.load(find_site(site))


def load_with_etcd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteContext:
    """tacc with kubeadm on etcd, which needs an image that is not built."""
    context = load("tacc", tmp_path, monkeypatch)
    assert context.site.cluster is not None
    cluster = context.site.cluster.model_copy(update={"installer": "kubeadm"})
    return replace(context, site=context.site.model_copy(update={"cluster": cluster}))


@pytest.mark.parametrize("layers", [tuple(Layer), *((layer,) for layer in Layer)], ids=",".join)
def test_etcd_by_kubeadm_is_refused_where_a_cluster_is_needed(
    layers: tuple[Layer, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = load_with_etcd(tmp_path, monkeypatch)
    if not {Layer.CLUSTER, Layer.PLATFORM} & set(layers):
        assert up_steps(context, lifecycle_of(context), layers)
        return
    with pytest.raises(UserError, match="installer: kubeadm with datastore: etcd is not installed"):
        up_steps(context, lifecycle_of(context), layers)


@pytest.mark.parametrize("site", ["lab", "tacc", "cnaf", "nautilus", "csc"])
@pytest.mark.parametrize("layers", [tuple(Layer), *((layer,) for layer in Layer)], ids=",".join)
def test_up_refuses_exactly_what_is_foretold(
    site: str, layers: tuple[Layer, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = load(site, tmp_path, monkeypatch)
    expected = refusal(context, layers)
    if expected is None:
        assert up_steps(context, lifecycle_of(context), layers)
        return
    with pytest.raises(UserError) as caught:
        up_steps(context, lifecycle_of(context), layers)
    assert (caught.value.message, caught.value.fix) == (expected.message, expected.fix)


def test_status_and_report_name_what_repairs_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for context, expected in (
        (load("lab", tmp_path, monkeypatch), "`strata up lab` repairs them"),
        (load("tacc", tmp_path, monkeypatch), "`strata up tacc` repairs them"),
        (
            load_with_etcd(tmp_path, monkeypatch),
            "`strata up tacc --layer cloud` repairs those of cloud; `strata up tacc --layer hosts` repairs those of "
            "hosts; this release does not install those of cluster; this release does not install those of platform",
        ),
    ):
        assert remedy(context, tuple(Layer)) == expected
        print_status(Console(width=1000), context, site_status(context, nothing_seen(context)))
        assert f"not in the desired state; {expected}" in capsys.readouterr().out
        assert build_report(context, offline=True).remedy == expected


def test_the_page_shows_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = build_report(load_with_etcd(tmp_path, monkeypatch), offline=True)
    text = render_page(report.model_copy(update={"state": State.DOWN}))
    assert "<code>strata up tacc --layer hosts</code> repairs those of hosts" in text
