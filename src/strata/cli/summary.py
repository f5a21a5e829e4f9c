"""Summary that `up` prints at the end."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from strata.access.users import without_group
from strata.catalogue.published import published
from strata.catalogue.site_services import issuer
from strata.engine.runner import RunReport
from strata.errors import UserError
from strata.layers import Layer
from strata.models.site import Site
from strata.site.context import SiteContext
from strata.site.outputs import ClusterOutputs

FRONT_PAGE = "front page"


def print_summary(context: SiteContext, report: RunReport) -> None:
    """Addresses, versions, time per layer, and what to try next."""
    console = Console()
    site, outputs = context.site, context.cloud_outputs
    console.print()
    if outputs:
        table = Table("host", "address", "flavor", "roles", title=f"site {site.name}", title_justify="left")
        for instance in outputs.instances.values():
            table.add_row(instance.name, instance.address, instance.flavor, ", ".join(instance.roles))
        console.print(table)
    for name, address in context.provider.endpoints().items():
        console.print(f"{name:<11} {address}", highlight=False)
    if cluster := ClusterOutputs.load(context.paths):
        console.print(f"Kubernetes  {cluster.api_endpoint}  v{cluster.kubernetes_version.lstrip('v')}", highlight=False)
    for name, service in services(context):
        console.print(f"{name:<11} {service}", highlight=False)
    if (own := issuer(site)) and own.users:
        console.print(f"users       {first_login(site, f'{own.url}/account')}", highlight=False, soft_wrap=True)
        if report.changed and (names := former_members(context)):
            command = f"`strata users remove {site.name} NAME` ends what is left"
            console.print(f"in no group {', '.join(names)}; {command}", highlight=False, soft_wrap=True)
    seconds = report.layer_seconds()
    times = "  ".join(f"{layer} {seconds[layer]:.0f} s" for layer in Layer if layer in seconds)
    console.print(f"time        {report.seconds:.0f} s  (work: {times})", highlight=False)
    if report.changed:
        console.print(f"changed     {report.changed}", highlight=False)
    else:
        console.print("[green]nothing changed[/]")
    name = site.name
    tools = ["openstack server list"] * (site.cloud is not None) + ["kubectl get nodes"] * (site.cluster is not None)
    if tools:
        console.print(f'next        eval "$(strata env {name})"; {"; ".join(tools)}', highlight=False)
    console.print(f"{'' if tools else 'next':<11} strata verify {name}; strata status {name}", highlight=False)


def services(context: SiteContext) -> list[tuple[str, str]]:
    """Name and address of each published service, the front page first."""
    links = [(s.hostname or FRONT_PAGE, s.url) for s in published(context.site)]
    return sorted(links, key=lambda link: link[0] != FRONT_PAGE)


def former_members(context: SiteContext) -> list[str]:
    """Users in no group; none where the issuer does not respond, which `status` reports."""
    try:
        return without_group(context)
    except UserError:
        return []


def first_login(site: Site, account: str) -> str:
    """How the first user gets in.

    Args:
        site: with an issuer of its own.
        account: URL where users log in if the site has no front page.
    """
    where = next((s.url for s in published(site) if not s.hostname), account)
    people = [p.name for t in site.platform.tenants for p in (*t.principal_investigators, *t.members)]
    command = f"strata users invite {site.name} {people[0]}" if people else f"strata users add {site.name} NAME"
    if not people and site.platform.tenants:
        command += f" --tenant {site.platform.tenants[0].name}"
    return f"`{command}` prints a password for the first login at {where}"
