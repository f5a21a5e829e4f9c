"""The environment in which the native tools work on a site."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from strata.engine.context import SiteContext
from strata.paths import REPOSITORY


def site_environment(context: SiteContext) -> dict[str, str]:
    """Variables of `strata env SITE`; none of them holds a secret, some name private files.

    Raises:
        UserError: versions.yaml does not parse.
    """
    from strata.toolchain import bin_directory

    paths = context.paths
    tools = [str(bin_directory()), str(Path(sys.executable).parent)]
    rest = [p for p in os.environ.get("PATH", "").split(os.pathsep) if p and p not in tools]
    variables = {
        "STRATA_SITE_FILE": str(context.site_file),
        "PULUMI_BACKEND_URL": f"file://{paths.pulumi}",
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(paths.passphrase_file),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "KUBECONFIG": str(paths.kubeconfig),
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "PATH": os.pathsep.join([*tools, *rest]),
    }
    if context.site.cloud is not None:
        lab = context.site.cloud.deployment == "lab"
        if lab:
            variables["OS_CLIENT_CONFIG_FILE"] = str(paths.clouds_file)
        variables["OS_CLOUD"] = context.site.name if lab else (context.site.cloud.credentials or context.site.name)
    return variables
