"""The life cycle of a cloud that Kolla-Ansible deploys."""

from __future__ import annotations

from collections.abc import Callable

from strata.installers.kolla.commands import Record
from strata.installers.kolla.files import difference
from strata.installers.kolla.steps import cloud_steps
from strata.layers import Step
from strata.lifecycle import CloudLifecycle


class KollaLifecycle(CloudLifecycle):
    """Kolla-Ansible deploys the cloud before the site's objects in it are created."""

    def cloud_steps(self, *, thorough: bool, drainable: Callable[[str], bool]) -> list[Step]:
        return cloud_steps(self.context, thorough=thorough, drainable=drainable)

    def planned_changes(self) -> list[str]:
        record = Record.of(self.context.paths)
        if not record.version:
            return [f"Kolla-Ansible deploys OpenStack {self.context.provider.location}"]
        return [f"Kolla-Ansible {line}" for line in difference(self.context.site, record.files)]
