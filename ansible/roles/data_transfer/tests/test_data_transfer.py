"""Transfer nodes: variables of the role, errors of a site file, and lines of a list of downloads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from strata.inventory.role_variables import role_variables
from strata.inventory.topology import secret
from strata.models.site import Site
from strata.roles import DIRECTORY, roles
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_bench.module_file import load_module

TEXT = """
name: metal
domain: metal.example.org
access: {ssh: [198.51.100.1/32], kubernetes_api: [198.51.100.1/32]}
hosts:
  machines:
    - {name: dtn-1, address: 192.0.2.1, roles: [data_transfer]}
    - {name: control-1, address: 192.0.2.3, roles: [kube_control_plane]}
    - {name: worker-1, address: 192.0.2.4, roles: [kube_node]}
    - {name: storage-1, address: 192.0.2.2, roles: [nfs_server]}
  nfs: {exports: [{name: datasets, path: /srv/datasets, tenants: true}, {name: other, path: /srv/other}]}
  data_transfer: {export: datasets, tenant: climate}
cluster: {name: metal, datastore: etcd, pod_network: 10.244.0.0/16, service_network: 10.96.0.0/16}
platform:
  tenants:
    - {name: climate, group_id: 20001, quota: {cpu: 1, memory: 1 GiB}}
    - {name: poor, quota: {cpu: 1, memory: 1 GiB}}
"""
WITHOUT_POOR = ("    - {name: poor, quota: {cpu: 1, memory: 1 GiB}}\n", "")
"""An export with tenants: true needs a group of every tenant."""


def written(directory: Path, *edits: tuple[str, str]) -> Site:
    """The site, with other texts in it."""
    text = TEXT
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    file = directory / "site.yaml"
    file.write_text(text)
    return load_site(file)


def test_downloads_go_to_the_tenant_s_folder_of_the_export(tmp_path: Path) -> None:
    variables = role_variables("data_transfer", written(tmp_path, WITHOUT_POOR), None)
    assert variables["data_transfer_source"] == "nfs.metal.example.org:/datasets"
    assert variables["data_transfer_subfolder"] == "climate"
    assert variables["data_transfer_group_id"] == 20001
    assert variables["data_transfer_rpc_secret"] == secret("data_transfer_rpc_secret")


def test_without_an_export_the_folder_is_the_node_s_own(tmp_path: Path) -> None:
    site = written(tmp_path, WITHOUT_POOR, ("{export: datasets, tenant: climate}", "{path: /srv/fast}"))
    variables = role_variables("data_transfer", site, None)
    assert set(variables) == {"data_transfer_path", "data_transfer_rpc_secret"}
    assert variables["data_transfer_path"] == "/srv/fast"


def test_the_nfs_server_is_set_up_first_and_admits_transfer_nodes(tmp_path: Path) -> None:
    order = list(roles())
    assert order.index("nfs_server") < order.index("data_transfer")
    exports = role_variables("nfs_server", written(tmp_path, WITHOUT_POOR), None)["nfs_server_exports"]
    assert isinstance(exports, list)
    assert exports[0]["clients"] == ["192.0.2.1/32", "192.0.2.4/32"]
    assert roles()["data_transfer"].ports == ()


SECTION = "{export: datasets, tenant: climate}"
CASES: dict[str, tuple[Sequence[tuple[str, str]], str, str, str]] = {
    "unknown export": ([("export: datasets", "export: dataset")], "export", "no NFS export", "did you mean datasets"),
    "no folders": ([("export: datasets", "export: other")], "export", "no folders of tenants", "tenants: true"),
    "read-only": ([("tenants: true}", "tenants: true, read_only: true}")], "export", "read-only", "remove read_only"),
    "no tenant": ([(SECTION, "{export: datasets}")], "export", "needs a tenant", "add tenant"),
    "unknown tenant": ([("tenant: climate}", "tenant: climat}")], "tenant", "no tenant has", "did you mean climate"),
    "no group": ([(SECTION, "{tenant: poor}")], "tenant", "no group_id", "add group_id to the tenant poor"),
    "no section": ([(f"  data_transfer: {SECTION}\n", "")], "machines[0].roles", "does not say", "data_transfer: {}"),
    "no node": ([("[data_transfer]", "[backup]")], "hosts.data_transfer", "role data_transfer", "give a host"),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_names_key_reason_and_fix(case: str, tmp_path: Path) -> None:
    edits, key, why, fix = CASES[case]
    with pytest.raises(SiteError) as caught:
        written(tmp_path, *edits)
    problems = [p for p in caught.value.problems if p.key.endswith(key) and why in p.why]
    assert problems, [str(p) for p in caught.value.problems]
    assert fix in problems[0].fix
    assert problems[0].line is not None


@pytest.fixture(scope="module")
def program() -> ModuleType:
    """The command data-transfer."""
    return load_module(DIRECTORY / "data_transfer" / "files" / "data_transfer.py")


def test_a_line_is_url_name_and_checksum(program: ModuleType) -> None:
    lines = ["# list", "", "https://a.org/x%20y.nc?key=k", "ftp://a.org/z sub/z", f"sftp://a.org/w {'A' * 64}"]
    downloads = program.read(lines)
    assert [(d.name, d.sha256) for d in downloads] == [("x y.nc", None), ("sub/z", None), ("w", "a" * 64)]
    assert downloads[0].options == {"gid": program.gid_of("x y.nc"), "out": "x y.nc"}
    assert downloads[2].options["checksum"] == f"sha-256={'a' * 64}"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("file:///etc/shadow", "must begin with"),
        ("magnet:?xt=urn:btih:0", "must begin with"),
        ("https:///x", "must begin with"),
        ("https://[::1/x", "cannot be parsed"),
        ("https://a.org/", "no name"),
        ("https://a.org/x ../x", "no name"),
        ("https://a.org/x /etc/x", "no name"),
        ("https://a.org/%2e%2e", "no name"),
        ("https://a.org/x%0A%20dir=", "no name"),
        ("https://a.org/x%1b[2J", "no name"),
        ("https://a.org/x a.aria2", "aria2's own"),
        ("https://a.org/x a b", "more than"),
        ("https://b.org/good", "another line"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_queued(program: ModuleType, line: str, why: str) -> None:
    with pytest.raises(program.RefusedError, match=rf"^line 2: .*{why}.*nothing is queued$"):
        program.read(["https://a.org/good", line])


def test_transfer_nodes_do_not_mount_the_claims_of_tenants() -> None:
    """Every other export is open to them."""
    site = load_site(REPOSITORY / "tests" / "corpus" / "complete" / "existing.yaml")
    exports = role_variables("nfs_server", site, None)["nfs_server_exports"]
    assert isinstance(exports, list)
    clients = {export["name"]: set(export["clients"]) for export in exports}
    assert "192.0.2.11/32" in clients["downloads"]
    assert "192.0.2.11/32" not in clients["claims"]
    assert clients["claims"] < clients["downloads"]
