"""Several hosts with the role postgresql: what is derived for them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from strata.catalogue.backup_items import backup_items
from strata.inventory.build import build_inventory
from strata.inventory.clients import database_clients, pod_services
from strata.models.site import Site
from strata.roles import units_of
from strata.site.host_list import address_of, running_roles
from strata.site.openings import openings
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError

SERVERS = ("database-1", "database-2", "database-3")
EDGE = "192.0.2.9"
PRIMARY_PORT = 5432


def site(tmp_path: Path, servers: tuple[str, ...] = SERVERS, **more: Any) -> Site:
    """Machines with these servers and a load balancer."""
    machines = [{"name": n, "address": f"192.0.2.{i}", "roles": ["postgresql"]} for i, n in enumerate(servers, start=1)]
    machines += [
        {"name": "edge-1", "address": EDGE, "roles": ["load_balancer"]},
        {"name": "kine-1", "address": "192.0.2.10", "roles": ["kine"]},
        {"name": "control-1", "address": "192.0.2.11", "roles": ["kube_control_plane"]},
    ]
    content = {
        "name": "metal",
        "domain": "metal.example.org",
        "access": {"ssh": ["198.51.100.0/24"]},
        "secrets": more.pop("secrets", []),
        "hosts": {"machines": machines, "postgresql": {"databases": ["records"]}, **more},
        "cluster": {"name": "metal", "installer": "kubeadm", "datastore": "kine"},
    }
    file = tmp_path / "site.yaml"
    file.write_text(yaml.safe_dump(content))
    return load_site(file)


def problems(tmp_path: Path, servers: tuple[str, ...], **more: Any) -> list[tuple[str, str]]:
    """What is refused, and the fix."""
    with pytest.raises(SiteError) as error:
        site(tmp_path, servers, **more)
    return [(problem.why, problem.fix) for problem in error.value.problems]


def test_clients_reach_the_primary_at_the_load_balancer(tmp_path: Path) -> None:
    several = site(tmp_path)
    assert address_of("postgresql", several, None) == EDGE
    variables = build_inventory(several, None, tmp_path / "site.yaml").variables
    assert variables["kine"]["kine_database"]["host"] == EDGE  # type: ignore[index]
    assert {"name": f"postgresql.{several.domain}", "address": EDGE} in variables["base"]["base_service_names"]  # type: ignore[operator]
    assert EDGE in variables["postgresql"]["postgresql_certificate"].expression  # type: ignore[attr-defined]
    # HAProxy is the client that the servers see, and itself accepts the databases' clients alone
    assert database_clients("kine", several, None) == [f"{EDGE}/32"]
    (opening,) = (o for o in openings(several)["load_balancer"] if o.port == PRIMARY_PORT)
    assert set(opening.clients) == {"kine", "kube_node"}
    assert PRIMARY_PORT in pod_services(several)["load_balancer"]
    assert variables["load_balancer"]["load_balancer_postgresql_servers"] == {
        name: f"192.0.2.{number}" for number, name in enumerate(SERVERS, start=1)
    }


def test_servers_run_patroni_in_place_of_debians_unit(tmp_path: Path) -> None:
    several = site(tmp_path)
    inventory = build_inventory(several, None, tmp_path / "site.yaml")
    assert inventory.groups["patroni"] == list(SERVERS)
    assert {"patroni", "etcd-server"} <= set(inventory.hosts["database-1"]["base_packages"])  # type: ignore[call-overload]
    assert list(inventory.variables["patroni"]["patroni_members"]) == list(SERVERS)  # type: ignore[call-overload]
    units = units_of(running_roles(several, ("postgresql",)))
    assert {"patroni", "etcd"} <= set(units)
    assert "postgresql@*-main" not in units
    order = inventory.variables["all"]["strata_host_roles"]
    assert order.index("patroni") < order.index("postgresql")  # type: ignore[attr-defined]


def test_one_server_is_as_before(tmp_path: Path) -> None:
    single = site(tmp_path, SERVERS[:1])
    inventory = build_inventory(single, None, tmp_path / "site.yaml")
    assert "patroni" not in inventory.groups
    assert "patroni" not in inventory.hosts["database-1"]["base_packages"]  # type: ignore[operator]
    assert inventory.variables["postgresql"]["postgresql_replicated"] is False
    assert inventory.variables["load_balancer"]["load_balancer_postgresql_servers"] == {}
    assert address_of("postgresql", single, None) == "192.0.2.1"
    units = units_of(running_roles(single, ("postgresql",)))
    assert "postgresql@*-main" in units
    assert "patroni" not in units
    assert {o.name for o in openings(single)["postgresql"]} == {"postgresql"}
    assert PRIMARY_PORT not in {o.port for o in openings(single)["load_balancer"]}
    assert PRIMARY_PORT not in pod_services(single)["load_balancer"]


def test_an_even_number_is_refused(tmp_path: Path) -> None:
    ((why, fix),) = problems(tmp_path, SERVERS[:2])
    assert "the role postgresql is on 2 hosts: database-1, database-2" in why
    assert fix == "give a third host the role postgresql, or remove it here"


def test_the_load_balancer_on_a_server_is_refused(tmp_path: Path) -> None:
    assert site(tmp_path).name == "metal"
    content = yaml.safe_load((tmp_path / "site.yaml").read_text())
    content["hosts"]["machines"][0]["roles"].append("load_balancer")
    content["hosts"]["machines"][3]["roles"] = ["nfs_server"]
    content["hosts"]["nfs"] = {"exports": [{"name": "data", "path": "/srv/data"}]}
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(SiteError, match="both load_balancer and postgresql listen at port 5432"):
        load_site(tmp_path / "site.yaml")


def test_backups_of_their_databases_are_refused(tmp_path: Path) -> None:
    backup = {"url": "https://s3.example.org", "bucket": "backups"}
    messages = problems(tmp_path, SERVERS, backup=backup)
    assert (
        "dumps the databases of one PostgreSQL server only, and there are several",
        "below hosts.backup: postgresql: {}, or exclude: [database/records, database/kine]",
    ) in messages


def test_pgbackrest_archives_them_in_place_of_dumps(tmp_path: Path) -> None:
    backup = {"url": "https://s3.example.org:9000", "bucket": "backups", "hour": 3, "postgresql": {"interval": 12}}
    secrets = [{"name": f"backup_{n}", "source": "environment"} for n in ("access_key", "secret_key", "password")]
    several = site(tmp_path, backup=backup, secrets=secrets)
    inventory = build_inventory(several, None, tmp_path / "site.yaml")
    assert inventory.groups["pgbackrest"] == list(SERVERS)
    assert "pgbackrest" in inventory.hosts["database-1"]["base_packages"]  # type: ignore[operator]
    variables = inventory.variables["pgbackrest"]
    assert variables["pgbackrest_hours"] == [3, 15]
    endpoint = variables["pgbackrest_s3"]
    assert isinstance(endpoint, dict)
    assert (endpoint["host"], endpoint["port"]) == ("s3.example.org", 9000)
    assert "lookup('strata_secret', 'backup_secret_key')" in endpoint["secret_key"].expression
    settings = inventory.variables["postgresql"]["postgresql_settings"]
    assert isinstance(settings, dict)
    assert settings["archive_mode"] == "on"
    assert backup_items(several, ("postgresql",)) == {}
    order = inventory.variables["all"]["strata_host_roles"]
    assert isinstance(order, list)
    assert order.index("postgresql") < order.index("pgbackrest")
    without = build_inventory(site(tmp_path), None, tmp_path / "site.yaml").variables["postgresql"]
    assert isinstance(without["postgresql_settings"], dict)
    assert "archive_mode" not in without["postgresql_settings"]
