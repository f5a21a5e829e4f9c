"""A run of `up`: refuses losses first, asks where a question will do, and completes the record at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from strata.engine.changes.disruption import Approval, ApprovalNeeded, remember
from strata.engine.database_servers import require_same_servers
from strata.engine.runner import Refused, RunReport, StepFailed
from strata.layers import Layer
from strata.site.context import SiteContext
from strata.site.data_protection import ProtectedResources, authorize_removal


def run_up(
    context: SiteContext,
    layers: Sequence[Layer],
    *,
    remove: Iterable[str],
    approval: Approval,
    run: Callable[[Approval], RunReport],
    ask: Callable[[str], bool] | None,
) -> RunReport:
    """Runs the steps of `up` with what the operator allows.

    Args:
        context: the site.
        layers: those to bring up.
        remove: names of data that may go.
        approval: what was allowed from the start.
        run: runs the steps; called again, they resume where they were.
        ask: prompts the operator; None without a terminal.

    Raises:
        UserError: some of several PostgreSQL servers would leave, or others join; nothing was changed.
        ProtectedLoss: something with data left the site file unnamed; nothing was changed.
        ApprovalNeeded: an instance would be disrupted, and it was not allowed.
        Refused: the provider refuses a change, such as a hypervisor removed before its instances.
        StepFailed: a step failed.
    """
    if {Layer.CLOUD, Layer.HOSTS} & set(layers):
        require_same_servers(context)
    authorize_removal(context.site, context.paths, layers, remove).save(context.paths.create())
    while True:
        try:
            report = run(approval)
            break
        except StepFailed as error:
            needed = error.__cause__
            if isinstance(needed, Refused):
                raise needed from None
            if not isinstance(needed, ApprovalNeeded):
                raise
            if ask is None or not needed.askable or not ask(needed.message):
                raise needed from None
            approval = approval.with_instances(disruption.instance for disruption in needed.disruptions)
    remember(context, layers)
    ProtectedResources.of(context.paths).settled(layers).save(context.paths)
    return report
