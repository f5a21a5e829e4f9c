"""Parts of a site's services: their pods, signals to their processes, and what `strata status` states of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strata.catalogue.needs.metrics import MONITORING_NAMESPACE
from strata.catalogue.service import SYSTEM_NAMESPACE
from strata.site.context import SiteContext
from strata_services.htcondor.needs import NAMESPACE as HTCONDOR_NAMESPACE
from strata_services.jupyterhub.needs import NAMESPACE as HUB_NAMESPACE

from .commands import strata_json
from .questions import process_of

if TYPE_CHECKING:
    from testinfra.host import Host

Kubectl = Callable[..., str]
Hosts = Callable[[str], "Host"]


@dataclass(frozen=True)
class Pods:
    """A workload of one pod.

    Args:
        namespace: of it.
        workload: kind and name, as kubectl and `strata status` name them.
        container: that is killed.
        release: of which it is part.
    """

    namespace: str
    workload: str
    container: str
    release: str

    @property
    def object(self) -> str:
        """As `strata status` names it."""
        return f"{self.release}: {self.workload.replace('/', ' ')}"

    def pod(self, kubectl: Kubectl) -> dict[str, Any]:
        """The pod."""
        workload = json.loads(kubectl("get", self.workload, f"--namespace={self.namespace}", "--output=json"))
        labels = ",".join(f"{name}={value}" for name, value in workload["spec"]["selector"]["matchLabels"].items())
        listed = kubectl("get", "pods", f"--namespace={self.namespace}", f"--selector={labels}", "--output=json")
        (pod,) = (pod for pod in json.loads(listed)["items"] if "deletionTimestamp" not in pod["metadata"])
        return dict(pod)

    def signal_all(self, kubectl: Kubectl, site_host: Hosts, signal: str) -> None:
        """Sends a signal to all processes of the container."""
        node, name = container_of(self.pod(kubectl), self.container)
        site_host(node).check_output(f"ctr --namespace k8s.io tasks kill --all --signal SIG{signal} {name}")

    def signal(self, kubectl: Kubectl, site_host: Hosts, signal: str) -> None:
        """Sends a signal to the container's process, on its node."""
        signal_container(self.pod(kubectl), self.container, site_host, signal)

    def scale(self, kubectl: Kubectl, replicas: int) -> None:
        """Sets the number of pods."""
        kubectl("scale", self.workload, f"--namespace={self.namespace}", f"--replicas={replicas}")


def container_of(pod: dict[str, Any], container: str) -> tuple[str, str]:
    """Node and containerd's id of a container."""
    (status,) = (status for status in pod["status"]["containerStatuses"] if status["name"] == container)
    return pod["spec"]["nodeName"], status["containerID"].removeprefix("containerd://")


def signal_container(pod: dict[str, Any], container: str, site_host: Hosts, signal: str) -> None:
    """Sends a signal to a container's first process."""
    node, name = container_of(pod, container)
    run = site_host(node).check_output
    process = process_of(lambda *command: str(run(" ".join(command))), name)
    run(f"kill -{signal} {process}")


def unhealthy(context: SiteContext) -> dict[str, str]:
    """Objects that `strata status` shows as not in the desired state, with what was found."""
    status, answer, error = strata_json(context, "status", "--no-drift")
    assert answer, error
    problems = {o["object"]: o["found"] for o in answer["objects"] if o["found"] != o["wanted"]}
    assert status == (1 if problems else 0)
    return problems


HUB = Pods(HUB_NAMESPACE.name, "deployment/hub", "hub", "jupyterhub")
PROXY = Pods(HUB_NAMESPACE.name, "deployment/proxy", "chp", "jupyterhub")
ISSUER = Pods(SYSTEM_NAMESPACE, "deployment/keycloak", "keycloak", "keycloak")
SCHEDD = Pods(HTCONDOR_NAMESPACE.name, "statefulset/htcondor-access-point", "condor", "htcondor")
NEGOTIATOR = Pods(HTCONDOR_NAMESPACE.name, "statefulset/htcondor-central-manager", "condor", "htcondor")
METRICS = Pods(MONITORING_NAMESPACE, "statefulset/prometheus-server", "prometheus", "prometheus-server")
