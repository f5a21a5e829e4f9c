"""Variables of the role backup."""

from __future__ import annotations

from strata.catalogue.backup_items import ACCESS_KEY, PASSWORD, SECRET_KEY, backup_exclude, backup_items
from strata.inventory import Template
from strata.inventory.topology import secret
from strata.models.declared_hosts import declared_hosts
from strata.models.site import Site
from strata.site.outputs import CloudOutputs


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # one signature for all roles
    """Repository, its secrets, and when; nothing for a site without the section."""
    backup = site.hosts.backup
    if backup is None:
        return {}
    values: dict[str, object] = {
        "backup_environment": {
            # a repository per host: removing old snapshots locks it
            "RESTIC_REPOSITORY": Template(
                f"s3:{backup.url.rstrip('/')}/{backup.bucket}/{site.name}/{{{{ inventory_hostname }}}}"
            ),
            "RESTIC_PASSWORD": secret(PASSWORD),
            "AWS_ACCESS_KEY_ID": secret(ACCESS_KEY),
            "AWS_SECRET_ACCESS_KEY": secret(SECRET_KEY),
            "AWS_DEFAULT_REGION": backup.region,
        },
        "backup_hour": backup.hour,
        "backup_maximum_age": backup.maximum_age,
        "backup_keep": backup.keep.model_dump(),
    }
    if backup.ca_file is not None:
        file = f"strata_site_file | dirname ~ '/' ~ {str(backup.ca_file)!r}"
        values["backup_ca"] = Template(f"{{{{ lookup('ansible.builtin.file', {file}) }}}}")
    return values


def host_variables(site: Site, host: str) -> dict[str, object]:
    """What the host's own roles store."""
    assigned = next(declared.roles for declared in declared_hosts(site) if declared.name == host)
    return {"backup_items": backup_items(site, assigned), "backup_exclude": backup_exclude(site, assigned)}
