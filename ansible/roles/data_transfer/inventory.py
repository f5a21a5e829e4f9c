"""Variables of the role data_transfer."""

from __future__ import annotations

from strata.inventory.topology import secret
from strata.models.site import Site
from strata.site.outputs import CloudOutputs
from strata_roles.data_transfer.settings import DataTransfer


def variables(site: Site, outputs: CloudOutputs | None) -> dict[str, object]:  # noqa: ARG001  # one signature for all roles
    """Folder, group and the secret of aria2; nothing for a site without the section."""
    settings = site.hosts.section(DataTransfer)
    if settings is None:
        return {}
    values: dict[str, object] = {
        "data_transfer_path": str(settings.path),
        "data_transfer_rpc_secret": secret("data_transfer_rpc_secret"),
    }
    if settings.tenant is not None:
        tenant = next(tenant for tenant in site.platform.tenants if tenant.name == settings.tenant)
        values["data_transfer_group_id"] = tenant.group_id
        if settings.export is not None:
            values["data_transfer_source"] = f"nfs.{site.domain}:/{settings.export}"
            values["data_transfer_subfolder"] = tenant.name
    return values
