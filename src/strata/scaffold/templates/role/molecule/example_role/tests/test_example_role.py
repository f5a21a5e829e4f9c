"""What the role promises, asked on its host."""

from __future__ import annotations

import testinfra

HOST = testinfra.get_host("podman://strata-molecule-example-role-host-1")


def test_the_page_is_served_by_its_name() -> None:
    url = "http://example-role.molecule-example-role.strata.test:8100/"
    assert "Welcome to molecule-example-role." in HOST.check_output(f"curl --silent --show-error {url}")


def test_the_service_starts_at_boot() -> None:
    service = HOST.service("example-role")
    assert service.is_running
    assert service.is_enabled
