"""Images that administrators of tenants add to the site's list."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .test_pods_api import assert_refused
from .users import IMAGE, User

OTHER = "docker.io/library/nginx"


@pytest.fixture
def admin(user: Callable[..., User], alice: User) -> User:
    """An administrator of research who is a member of teaching."""
    return user("pia", "research", "research/admins", "teaching")


def test_administrators_add_and_remove_images_of_their_tenants(admin: User, alice: User) -> None:
    body = {"pod_id": "web1", "image": "nginx:1"}
    assert_refused(alice("POST", "", body), 400, "not on the list")
    added = admin("POST", "/images", {"image": "nginx", "description": "a server"}).json()["result"]
    assert (added["image"], added["tenants"], added["added_by"]) == (OTHER, ["research"], "pia")
    assert_refused(admin("POST", "/images", {"image": OTHER}), 409, "already")
    assert alice("POST", "", body).status_code == 200
    assert_refused(
        admin("POST", "", {**body, "pod_id": "web2", "compute_queue": "teaching"}), 400, "list of tenant teaching"
    )
    assert alice("GET", f"/images/{OTHER}").json()["result"] == added
    assert admin("DELETE", f"/images/{OTHER}").status_code == 200
    assert_refused(admin("DELETE", f"/images/{OTHER}"), 404)
    assert alice.pod("web1")["status_requested"] == "ON"
    assert_refused(alice("POST", "/web1/restart"), 400, "not on the list")


def test_whoever_is_not_an_administrator_adds_none(alice: User, user: Callable[..., User], admin: User) -> None:
    for caller in (alice, user("left", "research/admins"), user("eve", "unknown", "unknown/admins")):
        assert_refused(caller("POST", "/images", {"image": OTHER}), 403, "administrators of a tenant")
        assert_refused(caller("POST", "/images/bulk", [{"image": OTHER}]), 403)
        assert_refused(caller("DELETE", f"/images/{OTHER}"), 403)
    body = {"image": OTHER, "tenants": ["teaching"]}
    assert_refused(admin("POST", "/images", body), 403, "you do not administer teaching, only research")


def test_the_list_is_that_of_the_callers_tenants(alice: User, user: Callable[..., User], admin: User) -> None:
    both = admin("GET", "/images").json()["result"]
    assert {image["image"]: image["tenants"] for image in both} == {
        IMAGE: ["research", "teaching"],
        "registry.example.org:5000/open/": ["research"],
    }
    admin("POST", "/images", {"image": "docker.io/library/"})
    eve = user("eve", "teaching")
    assert [image["image"] for image in eve("GET", "/images").json()["result"]] == [IMAGE]
    assert_refused(eve("GET", "/images/docker.io/library/"), 404)
    assert alice("GET", "/images/docker.io/library/").json()["result"]["image"] == "docker.io/library/"
    assert_refused(admin("DELETE", f"/images/{IMAGE}"), 409, "site.yaml")


def test_several_at_once_all_or_none(admin: User, alice: User) -> None:
    several = [{"image": OTHER}, {"image": IMAGE}]
    assert_refused(admin("POST", "/images/bulk", several), 409, IMAGE, "skip_duplicates")
    assert len(alice("GET", "/images").json()["result"]) == 2
    answer = admin("POST", "/images/bulk?skip_duplicates=true", several)
    assert [image["image"] for image in answer.json()["result"]] == [OTHER]


@pytest.mark.parametrize("image", ["nginx:1", f"{OTHER}@sha256:{'0' * 64}", "http://x/y", "../x", "", "a b"])
def test_images_that_cannot_be(admin: User, image: str) -> None:
    assert_refused(admin("POST", "/images", {"image": image}), 400, "image")
