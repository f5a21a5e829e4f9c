"""Variables of the role pgbackrest."""

from __future__ import annotations

from urllib.parse import urlsplit

from strata.catalogue.backup_items import ACCESS_KEY, PASSWORD, SECRET_KEY
from strata.inventory import Template
from strata.inventory.topology import secret
from strata.models.site import Site
from strata.site.outputs import CloudOutputs

HOURS = 24


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # one signature for all roles
    """Repository, its secrets, and when; nothing for a site without the section."""
    backup = site.hosts.backup
    if backup is None or backup.postgresql is None:
        return {}
    endpoint, archive = urlsplit(backup.url), backup.postgresql
    values: dict[str, object] = {
        "pgbackrest_s3": {
            "host": endpoint.hostname,
            "port": endpoint.port or 443,
            "bucket": backup.bucket,
            "region": backup.region,
            "access_key": secret(ACCESS_KEY),
            "secret_key": secret(SECRET_KEY),
        },
        "pgbackrest_path": f"/{site.name}/postgresql",
        "pgbackrest_password": secret(PASSWORD),
        "pgbackrest_hours": sorted((backup.hour + hour) % HOURS for hour in range(0, HOURS, archive.interval)),
        "pgbackrest_interval": archive.interval,
        "pgbackrest_full_interval": archive.full_interval,
        "pgbackrest_keep_full": archive.keep_full,
        "pgbackrest_maximum_age": backup.maximum_age,
        "pgbackrest_maximum_archive_age": archive.maximum_archive_age,
    }
    if backup.ca_file is not None:
        file = f"strata_site_file | dirname ~ '/' ~ {str(backup.ca_file)!r}"
        values["pgbackrest_ca"] = Template(f"{{{{ lookup('ansible.builtin.file', {file}) }}}}")
    return values
