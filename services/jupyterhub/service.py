"""JupyterHub: zero-to-jupyterhub's chart, behind the site's issuer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from strata.catalogue.leaving_program import LeavingProgram
from strata.catalogue.service import Service
from strata.models.finding import Finding, duplicates
from strata.models.key_path import KeyPath
from strata.models.platform import Tenant
from strata.models.site import Site
from strata.models.types import Size
from strata_services.jupyterhub import datasets
from strata_services.jupyterhub.needs import NAMESPACE, needs
from strata_services.jupyterhub.settings import JupyterHub, Profile
from strata_services.jupyterhub.values import values

KEY: KeyPath = ("platform", "services", "jupyterhub")
TENANTS: KeyPath = ("platform", "tenants")
LEAST_HOME = Size.parse("64 MiB")
"""The smallest limit of homes: JupyterLab's settings, IPython's history and a notebook."""


def check(settings: JupyterHub, site: Site, _: Path) -> Iterator[Finding]:
    """No entry is a duplicate; profiles name tenants that the site has."""
    tenants = [tenant.name for tenant in site.platform.tenants]
    yield from duplicates((p.name, (*KEY, "profiles", i, "name")) for i, p in enumerate(settings.profiles))
    for name in ("groups", "administrators", "images"):
        yield from duplicates((value, (*KEY, name, i)) for i, value in enumerate(getattr(settings, name)))
    yield from datasets.check(settings, site)
    yield from _home_size(settings)
    for index, profile in enumerate(settings.profiles):
        key: KeyPath = (*KEY, "profiles", index)
        for name in ("tenants", "groups", "users"):
            yield from duplicates((value, (*key, name, i)) for i, value in enumerate(getattr(profile, name)))
        for tenant in profile.tenants:
            if tenant not in tenants:
                fix = f"one of {', '.join(tenants)}" if tenants else "add it to platform.tenants"
                yield Finding((*key, "tenants"), f"the site has no tenant {tenant}", fix, (TENANTS,))
        for site_tenant in (t for t in site.platform.tenants if t.name in profile.tenants):
            yield from _out_of_reach(profile, site_tenant, key)
        if profile.guaranteed_memory is not None and profile.guaranteed_memory > profile.memory:
            yield Finding((*key, "guaranteed_memory"), "is more than memory", f"at most {profile.memory}")
        if profile.guaranteed_millicpus > profile.cpu * 1000:
            yield Finding((*key, "guaranteed_millicpus"), "is more than cpu", f"at most {profile.cpu * 1000}")


def _home_size(settings: JupyterHub) -> Iterator[Finding]:
    """A limit of homes is one that a server starts with, and that one home cannot fill the volume."""
    limit, key = settings.maximum_home_size, (*KEY, "maximum_home_size")
    if limit is not None and limit < LEAST_HOME:
        yield Finding(key, "is less than a server writes when it starts", f"at least {LEAST_HOME}")
    elif limit is not None and limit >= settings.homes_size:
        yield Finding(
            key,
            f"is not less than the volume with all homes, homes_size ({settings.homes_size})",
            f"less than {settings.homes_size}, or a larger homes_size if the NFS server has the space",
            ((*KEY, "homes_size"),),
        )


def _out_of_reach(profile: Profile, tenant: Tenant, key: KeyPath) -> Iterator[Finding]:
    """A profile is useless to a tenant whose quota has fewer cards than its server."""
    for kind, count in profile.accelerators.items():
        allowed = tenant.quota.accelerators.get(kind, 0)
        if allowed < count:
            why = f"names {tenant.name}, whose quota has {allowed} × {kind}; a server of the profile needs {count}"
            fix = f"quota: {{accelerators: {{{kind}: {count}}}}} for the tenant, or remove it here"
            yield Finding((*key, "tenants"), why, fix, (TENANTS,))


SERVICE = Service(
    folder=Path(__file__).parent,
    needs=needs,
    check=check,
    values=values,
    secret_data=datasets.secret_data,
    pod_annotations=("hub.annotations", "proxy.annotations"),
    leaving=[
        LeavingProgram(
            title="sessions, tokens and the server of JupyterHub",
            namespace=NAMESPACE.name,
            workload="deployment/hub",
            container="hub",
            command=("python3", "-m", "strata_hub.leaving"),
            issues=True,
        )
    ],
)
