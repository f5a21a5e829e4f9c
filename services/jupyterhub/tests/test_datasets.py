"""Datasets in a real JupyterHub with the real KubeSpawner: who registers them, and which servers have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_services.jupyterhub.service import SERVICE

from .datasets import SOURCE, register
from .running_hub import IMAGES, Hub

pytestmark = pytest.mark.xdist_group("jupyterhub-hub")


def mounts(hub: Hub, user: str) -> dict[str, tuple[str, bool]]:
    """Mount path to folder in the volume, and whether it is read-only."""
    volume_mounts = hub.container(user).get("volumeMounts") or ()
    return {
        mount["mountPath"]: (mount["subPath"], mount["readOnly"])
        for mount in volume_mounts
        if mount["name"] == "datasets"
    }


def test_members_servers_have_their_tenants_datasets(hub: Hub) -> None:
    register(hub, "iris", source=SOURCE)
    register(hub, "scratch", source=SOURCE, mount_path="/datasets/team/scratch", read_only=False)
    for user in ("bob", "carol", "both"):
        assert mounts(hub, user) == {"/datasets/iris": ("iris", True), "/datasets/team/scratch": ("scratch", False)}
    for user in ("eve", "guest"):
        assert mounts(hub, user) == {}
        assert "initContainers" not in hub.pod(user)["spec"]
    assert hub.call(hub.token("ada"), "DELETE", "/api/tenants/research/datasets/scratch").status_code == 204
    assert list(mounts(hub, "bob")) == ["/datasets/iris"]


def test_init_container_is_the_sites_and_restricted(hub: Hub) -> None:
    """A tenant's image may have no Python, and could report what it likes."""
    register(hub, "iris", source=SOURCE)
    assert hub.put("ada", "research/configuration/tenant", {"image": IMAGES[0]}).ok
    spec = hub.pod("bob")["spec"]
    (init,) = spec["initContainers"]
    assert (spec["containers"][0]["image"], init["image"]) == (IMAGES[0], "registry.example.org/notebook:1")
    security = init["securityContext"]
    assert (security["allowPrivilegeEscalation"], security["runAsNonRoot"]) == (False, True)
    assert (security["capabilities"], security["seccompProfile"]) == ({"drop": ["ALL"]}, {"type": "RuntimeDefault"})
    (volume,) = (volume for volume in spec["volumes"] if volume["name"] == "datasets")
    assert int(volume["emptyDir"]["sizeLimit"]) > 0, "else a notebook fills the node's disk"
    assert [mount["mountPath"] for mount in init["volumeMounts"]] == ["/datasets"], "and not the home"


def test_members_read_and_the_administrator_writes(hub: Hub) -> None:
    register(hub, "iris", source=SOURCE, required=True)
    path = "/api/tenants/research/datasets"
    for user in ("ada", "bob", "both"):
        assert hub.call(hub.token(user), "GET", path).json() == {"iris": {"source": SOURCE, "required": True}}
        assert hub.call(hub.token(user), "GET", f"{path}/iris").json()["source"] == SOURCE
    assert hub.call(hub.token("bob"), "GET", f"{path}/other").status_code == 404
    strangers = {
        "nobody": None,
        "a forged token": "0" * 32,
        "another tenant's administrator": hub.token("eve"),
        "a user without a tenant": hub.token("guest"),
        "an administrator of the hub": hub.operator,
        "a member's server": hub.token("bob", scopes=["access:servers!user=bob", "users:activity!user=bob"]),
    }
    for who, token in strangers.items():
        assert hub.call(token, "GET", path).status_code == 403, who
        assert hub.call(token, "GET", f"{path}/iris").status_code == 403, who
    for who, token in (strangers | {"a member": hub.token("bob")}).items():
        assert hub.call(token, "PUT", f"{path}/iris", {"source": "https://evil/"}).status_code == 403, who
        assert hub.call(token, "DELETE", f"{path}/iris").status_code == 403, who
    assert hub.put("ada", "biology/datasets/iris", {"source": SOURCE}).status_code == 403
    assert hub.call(hub.token("bob"), "GET", path).json()["iris"]["source"] == SOURCE


def test_every_change_of_a_dataset_is_recorded(hub: Hub) -> None:
    register(hub, "iris", source=SOURCE)
    register(hub, "iris", source=SOURCE, required=True)
    assert hub.call(hub.token("ada"), "DELETE", "/api/tenants/research/datasets/iris").status_code == 204
    changes = hub.call(hub.token("ada"), "GET", "/api/tenants/research/configuration/changes").json()[:3]
    assert [
        (change["by"], change["kind"], change["name"], change["before"], change["after"]) for change in changes
    ] == [
        ("ada", "datasets", "iris", {"source": SOURCE, "required": True}, None),
        ("ada", "datasets", "iris", {"source": SOURCE}, {"source": SOURCE, "required": True}),
        ("ada", "datasets", "iris", None, {"source": SOURCE}),
    ]


REFUSED: dict[str, tuple[str, Any, str]] = {
    "no source": ("iris", {}, "source: None"),
    "http": ("iris", {"source": "http://data.example.org/a"}, "source: 'http://data.example.org/a'"),
    "file": ("iris", {"source": "file:///etc/passwd"}, "is not an HTTPS URL"),
    "no host": ("iris", {"source": "https:///a"}, "is not an HTTPS URL"),
    "port": ("iris", {"source": "https://a:port/"}, "is not an HTTPS URL"),
    "password": ("iris", {"source": "https://ada:sesame@example.org/a"}, "has a user or a password"),
    "empty user": ("iris", {"source": "https://@example.org/a"}, "has a user or a password"),
    "fragment": ("iris", {"source": "https://example.org/a#b"}, "without #b"),
    "line break": ("iris", {"source": "https://example.org/a\n"}, "is not a URL"),
    "long": ("iris", {"source": "https://example.org/" + "a" * 1000}, "at most 1000 characters"),
    "list": ("iris", {"source": [SOURCE]}, "is not a URL"),
    "home": ("iris", {"source": SOURCE, "mount_path": "/home/jovyan"}, "mount_path: '/home/jovyan'"),
    "programs": ("iris", {"source": SOURCE, "mount_path": "/datasets/../usr/bin"}, "fix: /datasets/iris, or another"),
    "all": ("iris", {"source": SOURCE, "mount_path": "/datasets"}, "is not a path below /datasets"),
    "used": ("iris", {"source": SOURCE, "mount_path": "/datasets/stars"}, "dataset stars is at /datasets/stars"),
    "below": ("iris", {"source": SOURCE, "mount_path": "/datasets/stars/a"}, "dataset stars is at /datasets/stars"),
    "digest": ("iris", {"source": SOURCE, "sha256": "abc"}, "sha256: 'abc': is not a digest; fix: 64"),
    "boolean": ("iris", {"source": SOURCE, "required": "yes"}, "required: 'yes'"),
    "unknown key": ("iris", {"source": SOURCE, "claim": "homes"}, "claim: 'homes': unknown key; fix: one of source"),
    "no object": ("iris", ["source"], "body: ['source']"),
    "name": ("Iris", {"source": SOURCE}, "name: 'Iris'"),
    "too much": ("iris", {"source": SOURCE, "x": "a" * 70_000}, "body: 7"),
}


@pytest.mark.parametrize(("name", "body", "message"), REFUSED.values(), ids=REFUSED)
def test_wrong_datasets_are_refused(hub: Hub, name: str, body: Any, message: str) -> None:
    register(hub, "stars", source=SOURCE)
    response = hub.put("ada", f"research/datasets/{name}", body)
    assert response.status_code == 400, response.text
    text = response.json()["message"]
    assert message in text
    assert "fix: " in text
    assert "sesame" not in text
    assert list(hub.call(hub.token("ada"), "GET", "/api/tenants/research/datasets").json()) == ["stars"]


def test_tenant_has_a_most_of_datasets(hub: Hub) -> None:
    for number in range(16):
        register(hub, f"d{number}", source=SOURCE)
    response = hub.put("ada", "research/datasets/more", {"source": SOURCE})
    assert response.status_code == 400
    assert "the tenant has 16 datasets; fix: delete one" in response.json()["message"]
    register(hub, "d1", source=SOURCE, required=True)


def test_downloads_end_before_the_start_does(lab_with: Callable[..., Path]) -> None:
    with pytest.raises(SiteError, match=r"servers have 60 s to start"):
        load_site(lab_with(SERVICE, start_seconds=60, datasets={"download_seconds": 60}))


def test_time_of_downloads_is_half_of_the_starts(
    values_of: Callable[..., dict[str, Any]], lab_with: Callable[..., Path], fake_secrets: Any
) -> None:
    downloads = values_of(SERVICE, lab_with(SERVICE, start_seconds=90))["custom"]["downloads"]
    assert downloads == {"bytes": 2 * 2**30, "seconds": 45, "authorities": fake_secrets.ca}
