"""Compares one pod of the database with Kubernetes, and does the next thing that is missing.

Every step may be the last before the process dies: the database is written before an action whose repetition would be
seen, and names in Kubernetes come from the pod's, so that nothing is made twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from lightkube.core.exceptions import ApiError
from lightkube.models.core_v1 import Pod
from sqlalchemy import Connection, RowMapping, delete, func, null, select, update

from pods import objects, status
from pods.cluster import Cluster, OverQuota, Refused
from pods.objects import run_of
from pods.settings import ReconcileSettings, Tenant
from pods.spec import PodSpec
from pods.tables import LOG_ACTION, WITHOUT_INSTANCE, pods

log = structlog.get_logger(__name__)
Published = Mapping[str, set[tuple[str, str]]]


@dataclass(frozen=True)
class Reconciler:
    """Acts for one process; the caller sees that it is the only one.

    Args:
        connection: holds the lock; every write goes over it, so none is made once the lock is lost.
        cluster: Kubernetes.
        settings: of the service.
    """

    connection: Connection
    cluster: Cluster
    settings: ReconcileSettings

    def compare(self, tenant: Tenant) -> None:
        """One pass over a tenant's pods, those among them that only Kubernetes has."""
        actual = self.cluster.pods(tenant.name)
        published = self.cluster.published(tenant.name)
        # after the lists: a pod that has a row now cannot be taken for one without
        rows = self.connection.execute(
            select(*pods.columns).where(pods.c.tenant == tenant.name).order_by(pods.c.pod_id)
        )
        desired = {row["pod_id"]: row for row in rows.mappings()}
        for pod_id, row in desired.items():
            try:
                self._step(tenant, row, actual.get(pod_id), published.get(pod_id, set()))
            except Refused as error:
                self._set(row, status=status.ERROR, status_container=status.container("", str(error)))
                self._note(row, "refused by Kubernetes")
            except ApiError as error:
                log.warning("Kubernetes did not do as asked", pod=pod_id, tenant=tenant.name, reason=str(error))
        for pod_id in actual.keys() - desired.keys():
            log.warning("pod without a row is removed", pod=pod_id, tenant=tenant.name)
            self.cluster.delete_pod(tenant.name, pod_id)
        for pod_id in published.keys() - desired.keys():
            self.cluster.unpublish(tenant.name, pod_id)

    def _step(self, tenant: Tenant, row: RowMapping, actual: Pod | None, published: set[tuple[str, str]]) -> None:
        if row["deleted"] or row["status_requested"] != "ON":
            self._end(tenant, row, actual, published)
        elif actual is None:
            self._begin(tenant, row)
        elif run_of(actual) != row["run"]:
            # of a run before, whose end was not awaited; or a member's own pod, by the same name
            self._remove(tenant, row, actual)
        elif actual.metadata and actual.metadata.deletionTimestamp:
            # by a drain or a member: it is made again as soon as it is gone
            self._observe(row, status.Observed(status.CREATING, status.container("Pending", "the pod is moving")))
        else:
            self._follow(tenant, row, actual, published)

    def _end(self, tenant: Tenant, row: RowMapping, actual: Pod | None, published: set[tuple[str, str]]) -> None:
        if actual is not None:
            if row["status"] != status.DELETING:
                # first: it is kept even if this process ends before the next line
                self._keep_log(tenant, row, actual)
                self._set(row, status=status.DELETING)
            self._remove(tenant, row, actual)
            return
        if row["deleted"] or row["status_requested"] == "OFF":
            if published:
                self.cluster.unpublish(tenant.name, row["pod_id"])
            if row["deleted"]:
                self.connection.execute(delete(pods).where(pods.c.pod_id == row["pod_id"]))
                log.info("pod deleted", pod=row["pod_id"], tenant=tenant.name)
            elif row["status"] != status.STOPPED:
                self._set(row, status=status.STOPPED, status_container={}, time_to_stop_ts=None)
                self._note(row, "stopped")
        else:
            self._set(
                row,
                status_requested="ON",
                status=status.REQUESTED,
                status_container={},
                run=row["run"] + 1,
                run_spec=null(),
                spec=WITHOUT_INSTANCE,
                start_instance_ts=None,
                time_to_stop_ts=None,
            )

    def _begin(self, tenant: Tenant, row: RowMapping) -> None:
        if row["status"] in (status.COMPLETE, status.ERROR):
            return  # until a restart
        spec = row["run_spec"]
        if spec is None:
            # what the owner changes from now on is for the next run
            spec = row["spec"]
            if not self._set(row, status=status.SETUP, run_spec=spec):
                return
        self._publish(tenant, row, PodSpec.model_validate(spec))
        settings = self.settings
        volumes = objects.Volumes(settings.volumes_claim, settings.volumes_group)
        manifest = objects.pod(
            row["pod_id"], row["run"], PodSpec.model_validate(spec), tenant, settings.priority_class, volumes
        )
        try:
            self.cluster.apply(manifest)
        except OverQuota as error:
            self._observe(row, status.Observed(status.REQUESTED, status.container("", f"waiting: {error}")))
            return
        began = row["start_instance_ts"] or datetime.now(UTC)
        seconds = PodSpec.model_validate(row["spec"]).seconds
        ending = None if seconds is None else began + timedelta(seconds=seconds)
        times = {"start_instance_ts": began, "time_to_stop_ts": ending}
        self._set(row, status=status.CREATING, status_container=status.container("Pending"), **times)
        if row["start_instance_ts"] is None:
            self._note(row, f"run {row['run']} created")

    def _publish(self, tenant: Tenant, row: RowMapping, spec: PodSpec) -> None:
        pod_id, run = row["pod_id"], row["run"]
        domain, ingress_class = self.settings.domain, self.settings.ingress_class
        for kind, manifest in (
            ("Service", objects.service(pod_id, run, spec, tenant)),
            ("Ingress", objects.ingress(pod_id, run, spec, tenant, domain, ingress_class)),
        ):
            if manifest is None:
                self.cluster.unpublish(tenant.name, pod_id, kind)
            else:
                self.cluster.apply(manifest)

    def _follow(self, tenant: Tenant, row: RowMapping, actual: Pod, published: set[tuple[str, str]]) -> None:
        ending = row["time_to_stop_ts"]
        if ending is not None and ending <= datetime.now(UTC):
            if self._set(row, status_requested="OFF"):
                self._note(row, "time_to_stop reached")
            return
        spec = PodSpec.model_validate(row["run_spec"] or row["spec"])
        protocols = {entry.protocol for entry in spec.networking.values()}
        kinds = {kind for kind, needed in (("Service", protocols), ("Ingress", protocols & {"http"})) if needed}
        if {(kind, str(row["run"])) for kind in kinds} != published:
            self._publish(tenant, row, spec)
        observed = status.observe(actual)
        if observed.status == status.COMPLETE and row["status"] != observed.status:
            self._keep_log(tenant, row, actual)
        self._observe(row, observed)

    def _remove(self, tenant: Tenant, row: RowMapping, actual: Pod) -> None:
        if not (actual.metadata and actual.metadata.deletionTimestamp):
            self._ping()
            self.cluster.delete_pod(tenant.name, row["pod_id"])

    def _keep_log(self, tenant: Tenant, row: RowMapping, actual: Pod) -> None:
        run = run_of(actual)
        if not row["deleted"] and row["log_run"] < run and (text := self.cluster.log(tenant.name, row["pod_id"])):
            self._set(row, log=text, log_run=run)

    def _observe(self, row: RowMapping, observed: status.Observed) -> None:
        if row["status"] == observed.status and row["status_container"] == observed.container:
            return
        if self._set(row, status=observed.status, status_container=observed.container):
            if row["status"] != observed.status:
                self._note(row, f"status {observed.status}")
            log.info("pod", pod=row["pod_id"], tenant=row["tenant"], status=observed.status)

    def _set(self, row: RowMapping, **columns: Any) -> bool:
        """Writes columns unless the API has changed the request meanwhile; whether it did."""
        unchanged = (
            pods.c.pod_id == row["pod_id"],
            pods.c.run == row["run"],
            pods.c.status_requested == row["status_requested"],
            pods.c.deleted == row["deleted"],
        )
        changed = {**columns, "update_ts": func.now()}
        done = self.connection.execute(update(pods).where(*unchanged).values(changed))
        return done.rowcount == 1

    def _note(self, row: RowMapping, line: str) -> None:
        self.connection.execute(LOG_ACTION, {"pod_id": row["pod_id"], "line": line})

    def _ping(self) -> None:
        """Fails where the lock's connection is gone: another process may be the active one now."""
        self.connection.execute(select(1))


def summary(connection: Connection) -> dict[tuple[str, str], int]:
    """Pods by tenant and status."""
    query = select(pods.c.tenant, pods.c.status, func.count()).group_by(pods.c.tenant, pods.c.status)
    return {(tenant, state): count for tenant, state, count in connection.execute(query)}
