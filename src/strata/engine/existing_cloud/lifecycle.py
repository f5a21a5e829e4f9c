"""The life cycle of a cloud that others run."""

from __future__ import annotations

from strata.engine.keys import ensure_ssh_key
from strata.engine.up_steps import PULUMI_TOOLS
from strata.layers import Layer
from strata.lifecycle import CloudLifecycle
from strata.progress import Progress
from strata.toolchain import ensure


class ExistingCloudLifecycle(CloudLifecycle):
    """The site uses objects of the cloud that others created, which are checked before any is changed."""

    def check_cloud(self, progress: Progress) -> None:
        from strata.engine.existing_cloud.checks import check_existing_cloud  # noqa: PLC0415  # loads pulumi: 0.1 s

        check_existing_cloud(self.context, progress)

    def is_comparable(self, layer: Layer) -> bool:
        """The cloud's is, before the site was ever up; the platform's once there is a cluster."""
        return layer is not Layer.PLATFORM or self.context.paths.kubeconfig.exists()

    def prepare_comparison(self, progress: Progress) -> None:
        """What the preview needs: the cloud's objects in order, the tools, and the site's key."""
        from strata.engine.existing_cloud.checks import check_volume_sizes  # noqa: PLC0415  # loads pulumi: 0.1 s

        check_volume_sizes(self.context)
        self.check_cloud(progress)
        ensure(PULUMI_TOOLS, progress)
        ensure_ssh_key(self.context.paths)
