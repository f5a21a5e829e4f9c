"""What is done with the cloud of a site, from its check to its removal; the defaults are those of clouds of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING

from strata.drift_model import Drift, OrphanedResource
from strata.errors import UserError
from strata.layers import Layer, Step
from strata.progress import Progress
from strata.site.context import SiteContext

if TYPE_CHECKING:
    from openstack.connection import Connection


class CloudLifecycle:
    """The life cycle of a site's cloud; of a site without a cloud, that of its machines.

    The facts of the same cloud are `context.provider`. Commands make it
    (`strata.cli.lifecycle_choice`) and hand it down.

    Args:
        context: the site.
    """

    def __init__(self, context: SiteContext) -> None:
        self.context = context

    # --- this machine ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Refuses a machine that cannot deploy the site, before anything is created.

        Raises:
            UserError: names everything that is missing, each with its fix.
        """
        if problems := self.context.provider.problems():
            raise UserError(
                f"this machine cannot deploy site {self.context.site.name}:\n"
                + "\n".join(f"  {problem.message}" for problem in problems),
                fix="\n       ".join(problem.fix for problem in problems),
            )

    def networks_in_use(self) -> list[IPv4Network | IPv6Network]:
        """Networks that a copy of the site must avoid on this machine."""
        return []

    def remember(self, site_file: Path) -> None:
        """Records the file of a copy of the site, so that its networks stay reserved before it is up."""

    # --- up -------------------------------------------------------------------------------------------------------

    def cloud_steps(self, *, thorough: bool, drainable: Callable[[str], bool]) -> list[Step]:
        """Steps of `up` that come before the cloud's Pulumi program.

        Args:
            thorough: they do all their work, even without a change since its last success.
            drainable: whether the operator allowed to empty a hypervisor, by its name.
        """
        return []

    def check_cloud(self, progress: Progress) -> None:
        """Compares what the site refers to with the cloud, before the cloud's Pulumi program changes anything in it.

        Raises:
            UserError: the cloud is not what the site file expects; names each object, with its fix.
        """

    def cloud_recreated(self, message: str) -> bool:
        """Whether an error of the cloud's Pulumi program means that the cloud was re-created under its state.

        Args:
            message: of the error.
        """
        return False

    def after_cloud(self, progress: Progress) -> int:
        """Called after the cloud's Pulumi program; returns how many things it changed."""
        return 0

    # --- plan -----------------------------------------------------------------------------------------------------

    def planned_changes(self) -> list[str]:
        """What `up` would change beside Pulumi's resources, from the site's state alone."""
        return []

    def refused_changes(self) -> list[str]:
        """What `up` would refuse, from what the cloud reports."""
        return []

    def is_comparable(self, layer: Layer) -> bool:
        """Whether a preview of a layer's program has something to compare it with."""
        return True

    def prepare_comparison(self, progress: Progress) -> None:
        """Called before a preview of the cloud's Pulumi program; only the site's state directory changes.

        Raises:
            UserError: as of check_cloud.
        """

    # --- down, destroy --------------------------------------------------------------------------------------------

    def stop(self, progress: Progress) -> None:
        """Stops the hosts; their data stays.

        Raises:
            UserError: they are not Strata's to stop.
        """
        raise UserError(
            f"`strata down` stops machines that Strata itself runs; {self.context.site.name} is not a lab site",
            fix=self.context.provider.stop_with,
        )

    def remove_cloud(self, progress: Progress) -> bool:
        """Removes the cloud as a whole; False where its objects have to be deleted one by one."""
        return False

    # --- observation ----------------------------------------------------------------------------------------------

    def drift(self) -> list[Drift]:
        """Drift of what the provider itself runs."""
        return []

    def orphans(self, connection: Connection, servers: set[str]) -> Iterable[OrphanedResource]:
        """What a killed run left outside OpenStack's own records.

        Args:
            connection: to the cloud, as its administrator.
            servers: ids of all instances.
        """
        return ()
