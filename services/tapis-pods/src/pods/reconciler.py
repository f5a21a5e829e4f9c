"""Compares one pod of the database with Kubernetes, and does the next thing that is missing.

Every step may be the last before the process dies: the database is written before an action whose repetition would be
seen, and names in Kubernetes come from the pod's, so that nothing is made twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from lightkube.core.exceptions import ApiError
from lightkube.models.core_v1 import Pod
from sqlalchemy import Connection, RowMapping, delete, func, select

from pods import idle, objects, status
from pods.cluster import SERVICE, Cluster, OverQuota, Published, Refused
from pods.objects import run_of
from pods.routing import Routes
from pods.rows import change, new_run, note
from pods.settings import ReconcileSettings, Tenant
from pods.spec import PodSpec
from pods.tables import pods

log = structlog.get_logger(__name__)


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
                self._observe(row, status.Observed(status.ERROR, status.container("", str(error))))
            except ApiError as error:
                log.warning("Kubernetes did not do as asked", pod=pod_id, tenant=tenant.name, reason=str(error))
        for pod_id in actual.keys() - desired.keys():
            log.warning("pod without a row is removed", pod=pod_id, tenant=tenant.name)
            self.cluster.delete_pod(tenant.name, pod_id)
        for pod_id in published.keys() - desired.keys():
            self._unpublish(tenant, published[pod_id])

    def _step(self, tenant: Tenant, row: RowMapping, actual: Pod | None, published: Set[Published]) -> None:
        if row["deleted"] or row["status_requested"] != "ON":
            self._end(tenant, row, actual, published)
        elif actual is None:
            self._begin(tenant, row, published)
        elif run_of(actual) != row["run"]:
            # of a run before, whose end was not awaited; or a member's own pod, by the same name
            self._remove(tenant, row, actual)
        elif actual.metadata and actual.metadata.deletionTimestamp:
            self._move(tenant, row)
        else:
            self._follow(tenant, row, actual, published)

    def _end(self, tenant: Tenant, row: RowMapping, actual: Pod | None, published: Set[Published]) -> None:
        off = row["status_requested"] == "OFF" and not row["deleted"]
        # what is left of it to be done takes the kubelet a second or two, and a start waits for that
        stopped = actual is not None and off and status.ended(actual)
        if actual is not None and not stopped:
            if row["status"] != status.DELETING:
                # first: it is kept even if this process ends before the next line
                self._keep_log(tenant, row, actual)
                self._set(row, status=status.DELETING)
            # from now on, the names lead to the page of the service
            self._unpublish(tenant, {item for item in published if item.kind != SERVICE})
            self._remove(tenant, row, actual)
            return
        if row["deleted"] or off:
            self._unpublish(tenant, set(published))
            if row["deleted"]:
                self.connection.execute(delete(pods).where(pods.c.pod_id == row["pod_id"]))
                log.info("pod deleted", pod=row["pod_id"], tenant=tenant.name)
            elif row["status"] != status.STOPPED:
                reason = row["stop_reason"]
                container = status.container("", reason) if reason else {}
                self._set(
                    row,
                    status=status.STOPPED,
                    status_container=container,
                    time_to_stop_ts=None,
                    gpu_idle_stop_ts=None,
                )
                self._note(row, "stopped")
        else:
            self._set(row, **new_run(row["run"]))

    def _begin(self, tenant: Tenant, row: RowMapping, published: Set[Published]) -> None:
        if row["status"] in (status.COMPLETE, status.ERROR):
            return  # until a restart
        spec = row["run_spec"]
        if spec is None:
            # what the owner changes from now on is for the next run
            spec = row["spec"]
            if not self._set(row, status=status.SETUP, run_spec=spec):
                return
        settings = self.settings
        volumes = objects.Volumes(settings.volumes_claim, settings.volumes_group)
        with _stored():
            begun = PodSpec.model_validate(spec)
            manifest = objects.pod(
                row["pod_id"], row["run"], begun, tenant, row["owner"], settings.priority_class, volumes
            )
            seconds = PodSpec.model_validate(row["spec"]).seconds
        self._publish(tenant, row, begun, published, names=False)
        try:
            self.cluster.apply(manifest)
        except OverQuota as error:
            self._observe(row, status.Observed(status.REQUESTED, status.container("", f"waiting: {error}")))
            return
        began = row["start_instance_ts"] or datetime.now(UTC)
        ending = None if seconds is None else began + timedelta(seconds=seconds)
        times = {"start_instance_ts": began, "time_to_stop_ts": ending}
        self._set(row, status=status.CREATING, status_container=status.container("Pending"), **times)
        if row["start_instance_ts"] is None:
            self._note(row, f"run {row['run']} created")

    def _publish(
        self, tenant: Tenant, row: RowMapping, spec: PodSpec, published: Set[Published], *, names: bool
    ) -> None:
        """Makes the Service and, with `names`, what leads the pod's names to it; removes the rest."""
        service = objects.service(row["pod_id"], row["run"], spec, tenant)
        own = self.settings
        routes = Routes(own.domain, own.ingress_class, own.certificate_resolver, own.forward_auth_url)
        manifests = [] if service is None else [service]
        if names:
            with _stored():
                manifests += routes.manifests(row["pod_id"], row["run"], spec, tenant)
        desired = {Published.of(manifest) for manifest in manifests}
        for manifest in manifests:
            if Published.of(manifest) not in published:
                self.cluster.apply(manifest)
        kept = {(item.kind, item.name) for item in desired}
        self._unpublish(tenant, {item for item in published if (item.kind, item.name) not in kept})

    def _unpublish(self, tenant: Tenant, objects: set[Published]) -> None:
        if objects:
            self._ping()
            self.cluster.unpublish(tenant.name, objects)

    def _follow(self, tenant: Tenant, row: RowMapping, actual: Pod, published: Set[Published]) -> None:
        ending = row["time_to_stop_ts"]
        if ending is not None and ending <= datetime.now(UTC):
            reason = "time_to_stop reached"
            if self._set(row, status_requested="OFF", stop_reason=reason):
                self._note(row, reason)
            return
        with _stored():
            spec = PodSpec.model_validate(row["run_spec"] or row["spec"])
        observed = status.observe(actual)
        # a name leads to a container that runs, else to the page of the service
        self._publish(tenant, row, spec, published, names=observed.status == status.AVAILABLE)
        if observed.status == status.COMPLETE and row["status"] != observed.status:
            self._keep_log(tenant, row, actual)
        if observed.status == status.AVAILABLE and row["gpu_idle_stop_ts"] is not None:
            observed.container["message"] = idle.warning(row["gpu_idle_stop_ts"])
        self._observe(row, observed)

    def _move(self, tenant: Tenant, row: RowMapping) -> None:
        """Waits for the end of a Pod that a drain or a member deletes: it is made again as soon as it is gone."""
        moving = status.Observed(status.CREATING, status.container("Pending", "the pod is moving"))
        if row["status_container"] != moving.container and (text := self.cluster.log(tenant.name, row["pod_id"])):
            # the run goes on, and the log of its end follows
            self._set(row, log=text)
        self._observe(row, moving)

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
        return change(self.connection, row, **columns)

    def _note(self, row: RowMapping, line: str) -> None:
        note(self.connection, row, line)

    def _ping(self) -> None:
        """Fails where the lock's connection is gone: another process may be the active one now."""
        self.connection.execute(select(1))


@contextlib.contextmanager
def _stored() -> Iterator[None]:
    """Around the reading of a row that no release of the API has written: it is that pod's error alone."""
    try:
        yield
    except ValueError as error:
        raise Refused(f"the stored values cannot be used: {error}") from None


def summary(connection: Connection) -> dict[tuple[str, str], int]:
    """Pods by tenant and status."""
    query = select(pods.c.tenant, pods.c.status, func.count()).group_by(pods.c.tenant, pods.c.status)
    return {(tenant, state): count for tenant, state, count in connection.execute(query)}
