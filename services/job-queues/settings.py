"""What site.yaml sets of queues of jobs."""

from __future__ import annotations

from strata.models.base import Model


class JobQueues(Model):
    """Queues for Kubernetes jobs, with Kueue: jobs beyond a tenant's share wait; idle shares are lent to others."""


SECTION = JobQueues
