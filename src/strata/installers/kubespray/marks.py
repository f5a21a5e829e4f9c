"""Labels, taints and cordons of nodes: repaired through the API, because no playbook is needed for them."""

from __future__ import annotations

from collections.abc import Iterable

from strata.access.kubectl import Unanswered, kubectl
from strata.drift_model import Drift
from strata.errors import UserError
from strata.site.context import SiteContext

CORDON, TAINT, LABEL = "unschedulable", "taint", "label "
"""Properties of drift, as `strata.drift.cluster` names them."""


def is_mark(drift: Drift) -> bool:
    """Whether the drift is of a label, a taint or a cordon of a node."""
    return drift.object.startswith("node ") and (drift.property in (CORDON, TAINT) or drift.property.startswith(LABEL))


def restore_marks(context: SiteContext, drift: Iterable[Drift]) -> int:
    """Gives nodes their labels and taints again, and uncordons them.

    Args:
        context: the site.
        drift: of marks only.

    Returns:
        How many were restored.

    Raises:
        UserError: the API server refused, or does not respond.
    """
    count = 0
    for item in drift:
        node = item.object.removeprefix("node ")
        if item.property == CORDON:
            command = ["uncordon", node]
        elif item.property == TAINT:
            command = ["taint", "node", node, item.wanted, "--overwrite"]
        else:
            command = ["label", "node", node, f"{item.property.removeprefix(LABEL)}={item.wanted}", "--overwrite"]
        try:
            kubectl(context, *command)
        except Unanswered as error:
            raise UserError(f"kubectl {' '.join(command[:3])}: {error}", fix="run the same command again") from None
        count += 1
    return count
