"""HTCondor: batch jobs on what notebooks and services leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from strata.catalogue.leaving_program import LeavingProgram
from strata.catalogue.service import Question, Service
from strata.catalogue.site_needs import job_images
from strata.models.finding import Finding, duplicates
from strata.models.key_path import KeyPath
from strata.models.site import Site
from strata_services.htcondor.needs import NAMESPACE, needs, secret_data
from strata_services.htcondor.settings import HTCondor
from strata_services.htcondor.values import OWN_IMAGE, batch_server, values

KEY: KeyPath = ("platform", "services", "htcondor", "tenants")
QUEUES: KeyPath = ("platform", "services", "htcondor", "queues")
IMAGES: KeyPath = ("platform", "services", "htcondor", "images")
TENANTS: KeyPath = ("platform", "tenants")
PING = ("timeout", "5", "condor_ping", "-quiet")
DAEMONS = {
    "collector": ("central-manager", (*PING, "-type", "collector", "READ")),
    "negotiator": ("central-manager", (*PING, "-type", "negotiator", "READ")),
    "schedd": ("access-point", ("timeout", "5", "condor-ping-schedds")),
}
"""Daemon to the StatefulSet that runs it, and a command there that it answers."""

LEAVING = (
    ("central-manager", "revoke", "tokens at the central manager"),
    ("access-point", "leave", "tokens and batch jobs at the access point"),
)
"""StatefulSet, the command of strata_condor, and what ends."""


def images_check(settings: HTCondor, site: Site) -> Iterator[Finding]:
    """Names are used once, and the default is one of them."""
    given = sorted({OWN_IMAGE, *job_images(site)})
    for index, image in enumerate(settings.images):
        if image.name in given:
            key: KeyPath = (*IMAGES, index, "name")
            yield Finding(key, f"the pool has an image {image.name} already", "another name")
    yield from duplicates((image.name, (*IMAGES, i, "name")) for i, image in enumerate(settings.images))
    names = [*given, *(image.name for image in settings.images)]
    if settings.default_image is not None and settings.default_image not in names:
        key = (*IMAGES[:-1], "default_image")
        why = f"the pool has no image {settings.default_image}"
        yield Finding(key, why, f"one of {', '.join(names)}", reads=(IMAGES,))


def check(settings: HTCondor, site: Site, _: Path) -> Iterator[Finding]:
    """Tenants are those of the site, each once, as queues are; shares do not name cards that jobs cannot have."""
    yield from duplicates((name, (*QUEUES, i)) for i, name in enumerate(settings.queues))
    yield from images_check(settings, site)
    names = [tenant.name for tenant in site.platform.tenants]
    yield from duplicates((share.name, (*KEY, i, "name")) for i, share in enumerate(settings.tenants))
    for index, share in enumerate(settings.tenants):
        key: KeyPath = (*KEY, index)
        if share.name not in names:
            fix = f"one of {', '.join(names)}" if names else "add it to platform.tenants"
            yield Finding((*key, "name"), f"the site has no tenant {share.name}", fix, (TENANTS,))
        if share.cards and settings.accelerator is None:
            yield Finding(
                (*key, "cards"), "jobs have no cards without `accelerator`", "set accelerator, or remove cards"
            )


SERVICE = Service(
    folder=Path(__file__).parent,
    needs=needs,
    check=check,
    values=values,
    secret_data=secret_data,
    batch_server=batch_server,
    pod_annotations=("podAnnotations", "daemonAnnotations"),
    questions=[
        Question(daemon, NAMESPACE.name, f"htcondor-{part}-0", "condor", command)
        for daemon, (part, command) in DAEMONS.items()
    ],
    leaving=[
        LeavingProgram(
            title=title,
            namespace=NAMESPACE.name,
            workload=f"statefulset/htcondor-{part}",
            container="condor",
            command=("python3", "-m", "strata_condor", command),
        )
        for part, command, title in LEAVING
    ],
)
