"""The Helm releases of one site; the table of them is src/strata/platform/releases.py, the charts are in helm/."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes

from strata.platform.chart_release import ChartRelease
from strata.platform.releases import PlatformState, releases
from strata.pulumi_program import required_cluster, required_images, stack_site, without_traceback
from strata.site.outputs import CloudOutputs
from strata.site.paths import SitePaths
from strata.site.secrets import SecretStore

site, site_file = stack_site()
required_cluster(site)
paths = SitePaths(site.name)
secrets = SecretStore.open(site.name, site.secrets)
state = PlatformState(site, site_file, CloudOutputs.load(paths), required_images(site), secrets)

in_cluster = pulumi.ResourceOptions(provider=kubernetes.Provider("cluster", kubeconfig=str(paths.kubeconfig)))
table = releases(site)
made: dict[str, ChartRelease] = {}
for release in table:
    before = [made[name] for name in release.after]
    values = without_traceback(release.values)(state)
    made[release.name] = without_traceback(ChartRelease)(release, site, values, in_cluster, before)

pulumi.export("releases", [release.name for release in table])
