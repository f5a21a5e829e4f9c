"""Free networks for a new site, and addresses that move along."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import UserError
from strata.scaffold.site import new_site
from strata.site_file.inventories import find_site
from strata.site_file.loader import load_site
from strata.site_file.renumber import PRIVATE, IPNetwork, free_network, renumber


def nets(*texts: str) -> list[IPNetwork]:
    return [ip_network(text) for text in texts]


@pytest.mark.parametrize(
    ("like", "taken", "expected"),
    [
        ("10.87.0.0/24", (), "10.87.1.0/24"),
        ("10.87.0.0/24", ("10.87.1.0/24", "10.87.2.128/25"), "10.87.3.0/24"),
        ("10.87.0.0/24", ("10.0.0.0/9",), "10.128.0.0/24"),
        ("10.255.255.0/24", (), "10.0.0.0/24"),
        ("192.168.0.0/17", (), "192.168.128.0/17"),
        ("203.0.113.0/24", ("10.0.0.0/16",), "10.1.0.0/24"),
        ("fd00:1::/64", ("fd00:1:0:1::/64", "10.0.0.0/8"), "fd00:1:0:2::/64"),
    ],
)
def test_next_free_network(like: str, taken: tuple[str, ...], expected: str) -> None:
    assert free_network(ip_network(like), nets(*taken)) == ip_network(expected)


def test_full_block_is_reported() -> None:
    with pytest.raises(UserError, match=r"no network like 192\.168\.0\.0/17 is free in 192\.168\.0\.0/16"):
        free_network(ip_network("192.168.0.0/17"), nets("192.168.200.0/24"))


@given(
    prefix=st.integers(8, 29),
    taken=st.lists(st.tuples(st.integers(0, 2**24 - 1), st.integers(9, 32)), max_size=30),
    start=st.integers(0, 2**24 - 1),
)
def test_result_overlaps_nothing(prefix: int, taken: list[tuple[int, int]], start: int) -> None:
    base = int(PRIVATE[0].network_address)
    like = ip_network((base + start, max(prefix, 9)), strict=False)
    used = [ip_network((base + place, length), strict=False) for place, length in taken]
    try:
        network = free_network(like, used)
    except UserError:
        # then every place of that size is hit
        places = (ip_network((base, 8)).subnets(new_prefix=like.prefixlen)) if like.prefixlen < 16 else ()
        assert all(any(p.overlaps(u) for u in [*used, like]) for p in places)
        return
    assert network.prefixlen == like.prefixlen
    assert not any(network.overlaps(u) for u in [*used, like])


def test_text_moves_with_its_addresses() -> None:
    moves = {ip_network("10.77.0.0/24"): ip_network("10.77.1.0/24"), ip_network("fd00::/64"): ip_network("fd00:9::/64")}
    text = "cidr: 10.77.0.0/24  # gateway 10.77.0.1.\nx: [10.77.0.250, 10.770.0.1, 10.77.0.1.2, fd00::5, a:b]\n"
    assert renumber(text, moves) == (
        "cidr: 10.77.1.0/24  # gateway 10.77.1.1.\nx: [10.77.1.250, 10.770.0.1, 10.77.0.1.2, fd00:9::5, a:b]\n"
    )


def test_new_lab_shares_no_address_with_those_that_are_there(tmp_path: Path) -> None:
    taken = nets("10.87.1.0/24", "10.77.0.0/16")
    own = nets("10.87.0.0/24", "10.77.0.0/24")
    site = load_site(new_site("fresh", find_site("lab"), tmp_path, own, taken))
    assert site.cloud is not None
    assert site.cloud.control_network == ip_network("10.87.2.0/24")
    assert site.cloud.networks[0].cidr == ip_network("10.78.0.0/24")
    assert site.cloud.networks[0].gateway in site.cloud.networks[0].cidr


def test_site_elsewhere_keeps_its_networks(tmp_path: Path) -> None:
    before = load_site(find_site("tacc"))
    assert before.cloud is not None
    assert before.cloud.deployment == "kolla"
    after = load_site(new_site("fresh", find_site("tacc"), tmp_path))
    assert after.cloud == before.cloud


def test_state_of_that_name_is_not_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "state" / "fresh").mkdir(parents=True)
    with pytest.raises(UserError, match="a site called fresh is or was up"):
        new_site("fresh", find_site("lab"), tmp_path / "sites")
