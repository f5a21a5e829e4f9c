"""The environment in which the native tools work on a site."""

from __future__ import annotations

from strata.access.https import trusted_authorities
from strata.catalogue.published import api_url
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata.toolchain import tools_variables


def site_environment(context: SiteContext) -> dict[str, str]:
    """Variables of `strata env SITE`; none of them holds a secret, some name private files.

    Raises:
        UserError: versions.yaml does not parse.
    """
    paths = context.paths
    variables = tools_variables() | {
        "STRATA_SITE_FILE": str(context.site_file),
        "PULUMI_BACKEND_URL": f"file://{paths.pulumi}",
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(paths.passphrase_file),
        "KUBECONFIG": str(paths.kubeconfig),
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
    }
    if url := api_url(context.site):
        variables["STRATA_API_URL"] = url
        if isinstance(authorities := trusted_authorities(context), str):
            variables["STRATA_CA_FILE"] = authorities
    if context.provider.clouds_file is not None:
        variables["OS_CLIENT_CONFIG_FILE"] = str(context.provider.clouds_file)
    if context.provider.cloud_entry is not None:
        variables["OS_CLOUD"] = context.provider.cloud_entry
    return variables
