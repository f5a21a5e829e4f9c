"""kubernetes.helm.sh/v3:Release through helm."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml

from strata.access.helm_storage import StoredRelease
from strata_lab.kubernetes_provider.helm import Cluster, CommandFailed, Say, failing_pods
from strata_lab.kubernetes_provider.properties import (
    UNKNOWN,
    Properties,
    differences,
    has_unknown,
    mark,
    plain,
    secret,
)

_FLAGS = (
    *("allowNullValues", "atomic", "cleanupOnFail", "createNamespace", "dependencyUpdate", "devel", "disableCRDHooks"),
    *("disableOpenapiValidation", "disableWebhooks", "forceUpdate", "lint", "recreatePods", "renderSubchartNotes"),
    *("replace", "resetValues", "reuseValues", "skipAwait", "skipCrds", "verify", "waitForJobs"),
)
DEFAULTS: Properties = {
    **dict.fromkeys(_FLAGS, False),
    **dict.fromkeys(("description", "keyring", "postrender"), ""),
    "values": {},
}
"""What the official plugin adds to the inputs."""
_UNDERSTOOD = {*_FLAGS, "name", "namespace", "chart", "version", "values", "timeout", "description", "checksum"}
_REPLACING = {"name", "namespace"}
_TIMEOUT = 300


class InitializationFailed(Exception):
    """The release exists, but is not ready; the engine keeps its state.

    Args:
        id: namespace and name.
        state: what the engine keeps.
        reasons: what went wrong, a line each.
    """

    def __init__(self, id: str, state: Properties, reasons: Sequence[str]) -> None:
        super().__init__(f"Helm release {id}: " + "; ".join(reasons))
        self.id = id
        self.state = state
        self.reasons = list(reasons)


def check(olds: Properties, news: Properties, name: str) -> Properties:
    """The inputs with defaults and what identifies the chart's content.

    Args:
        olds: inputs of the last run; empty at the first.
        news: what the program asks for.
        name: for a release that has none.

    Raises:
        ValueError: an option that this provider does not know, or no chart there.
    """
    given = plain(news)
    given.pop("compat", None)  # which the SDK passes to the official plugin
    given.pop("resourceNames", None)
    if unknown := {k for k, v in given.items() if v} - _UNDERSTOOD:
        raise ValueError(f"the substitute provider does not know {', '.join(sorted(unknown))} of a Release")
    inputs = DEFAULTS | given
    inputs["name"] = inputs.get("name") or plain(olds).get("name") or name
    inputs["namespace"] = inputs.get("namespace") or "default"
    if not inputs["skipAwait"]:
        inputs.setdefault("timeout", _TIMEOUT)
    if not has_unknown(inputs["chart"]):
        chart = Path(inputs["chart"])
        if not (chart / "Chart.yaml").is_file():
            raise ValueError(f"no chart at {chart}; the substitute provider takes charts from directories")
        inputs["version"] = str(yaml.safe_load((chart / "Chart.yaml").read_text())["version"])
        inputs["checksum"] = _checksum(chart)
    return mark(inputs, news)


def diff(olds: Properties, news: Properties) -> tuple[dict[str, int], set[str]]:
    """Path to kind of change, and the keys that need another release."""
    old, new = plain(olds), plain(news)
    changes = differences(old, new)
    if "checksum" not in old:  # made by the official plugin, which does not look into charts
        changes.pop("checksum", None)
    return changes, changes.keys() & _REPLACING


def create(cluster: Cluster, news: Properties, say: Say) -> tuple[str, Properties]:
    """Installs a release; one of the same name and chart that an interrupted run left is taken over.

    Raises:
        CommandFailed: nothing was installed, or it was taken away again.
        InitializationFailed: it was installed, but did not become ready.
    """
    inputs = plain(news)
    id = f"{inputs['namespace']}/{inputs['name']}"
    info = _info(cluster, inputs["name"], inputs["namespace"])
    if info is not None:
        if info["chart"] != Path(inputs["chart"]).name:
            raise CommandFailed(f"a release {id} of the chart {info['chart']} is there already")
        _settle(cluster, inputs, info)
    _put(cluster, id, news, say, installed_before=info is not None)
    return id, state(cluster, news)


def update(cluster: Cluster, id: str, news: Properties, say: Say) -> Properties:
    """Upgrades a release. Errors as of `create`."""
    inputs = plain(news)
    info = _info(cluster, inputs["name"], inputs["namespace"])
    if info is not None:
        _settle(cluster, inputs, info)
    _put(cluster, id, news, say, installed_before=info is not None)
    return state(cluster, news)


def read(cluster: Cluster, id: str, olds: Properties, before: Properties) -> tuple[str, Properties, Properties]:
    """What is there now: id (empty where it is gone), state and inputs, which differ from `olds` where another program
    upgraded the release or deleted one of its objects."""
    inputs = plain(olds)
    namespace, _, name = id.rpartition("/")
    stored = cluster.releases().get((namespace, name))
    if stored is None:
        return "", {}, {}
    live = _status(stored)
    if not inputs:  # an import
        inputs = DEFAULTS | {"name": name, "namespace": namespace, "chart": live["chart"], "timeout": _TIMEOUT}
    objects = stored.objects()
    known = plain(before).get("status") or {}
    if (known.get("revision"), known.get("status")) != (live["revision"], live["status"]):
        inputs = inputs | {"values": dict(stored.values), "version": live["version"], "checksum": ""}
    elif _missing_objects(cluster, namespace, objects):
        inputs = inputs | {"checksum": ""}
    marked = mark(inputs, olds)
    return id, _outputs(marked, live, objects), marked


def delete(cluster: Cluster, olds: Properties) -> None:
    """Uninstalls a release; one that is gone is none."""
    inputs = plain(olds)
    wait = ["--wait", "--timeout", f"{inputs.get('timeout') or _TIMEOUT}s"]
    cluster.helm("uninstall", inputs["name"], "--namespace", inputs["namespace"], "--ignore-not-found", *wait)


def planned(news: Properties) -> Properties:
    """State of a release that does not exist yet."""
    return news | {"status": UNKNOWN, "resourceNames": UNKNOWN}


def state(cluster: Cluster, news: Properties) -> Properties:
    """The outputs of a deployed release."""
    inputs = plain(news)
    stored = cluster.release(inputs["name"], inputs["namespace"])
    if stored is None:
        raise CommandFailed(f"release {inputs['namespace']}/{inputs['name']} vanished after it was installed")
    return _outputs(mark(inputs, news), _status(stored), stored.objects())


def _put(cluster: Cluster, id: str, news: Properties, say: Say, *, installed_before: bool) -> None:
    inputs = plain(news)
    release = [inputs["name"], "--namespace", inputs["namespace"]]
    arguments = ["upgrade", "--install", inputs["name"], inputs["chart"], *release[1:], "--values", "-"]
    arguments += ["--reuse-values"] if inputs["reuseValues"] else ["--reset-values"]
    arguments += ["--create-namespace"] if inputs["createNamespace"] else []
    arguments += ["--skip-crds"] if inputs["skipCrds"] else []
    arguments += ["--cleanup-on-fail"] if inputs["cleanupOnFail"] else []
    arguments += ["--description", inputs["description"]] if inputs["description"] else []
    if not inputs["skipAwait"]:
        arguments += ["--wait", "--timeout", f"{inputs['timeout']}s"]
        arguments += ["--wait-for-jobs"] if inputs["waitForJobs"] else []
    say("waiting for helm")
    try:
        cluster.helm(*arguments, text=json.dumps(inputs["values"]))
    except CommandFailed as error:
        # helm's own --atomic takes the pods away before anyone could query them
        reasons = [str(error), *failing_pods(cluster, inputs["namespace"])]
        if _info(cluster, inputs["name"], inputs["namespace"]) is None:
            raise CommandFailed("\n  ".join(reasons)) from error
        if not inputs["atomic"]:
            raise InitializationFailed(id, state(cluster, news), reasons) from error
        say("rolling back")
        if installed_before:
            cluster.helm("rollback", *release)
            raise InitializationFailed(id, state(cluster, news) | {"checksum": ""}, reasons) from error
        cluster.helm("uninstall", *release)
        raise CommandFailed("\n  ".join(reasons)) from error


def _settle(cluster: Cluster, inputs: Properties, info: Properties) -> None:
    """Ends what a killed helm left half done; helm refuses to work on such a release."""
    release = [inputs["name"], "--namespace", inputs["namespace"]]
    if info["status"] == "pending-install":
        cluster.helm("uninstall", *release)
    elif info["status"].startswith("pending-"):
        cluster.helm("rollback", *release)


def _info(cluster: Cluster, name: str, namespace: str) -> Properties | None:
    """Status of a release; None where there is none."""
    stored = cluster.release(name, namespace)
    return None if stored is None else _status(stored)


def _status(stored: StoredRelease) -> Properties:
    """In the official plugin's form."""
    names = ("chart", "version", "name", "namespace", "status", "revision")
    return {name: getattr(stored, name) for name in names} | {"appVersion": stored.app_version}


def _outputs(marked: Properties, live: Properties, manifests: Iterable[Properties]) -> Properties:
    names: dict[str, set[str]] = {}
    for item in manifests:
        group = item["apiVersion"].rpartition("/")[0]
        kind = f"{item['kind']}{'.' if group else ''}{group}/{item['apiVersion']}"
        space = item["metadata"].get("namespace")
        names.setdefault(kind, set()).add(f"{space}/{item['metadata']['name']}" if space else item["metadata"]["name"])
    objects = {kind: sorted(of_kind) for kind, of_kind in names.items()}
    return marked | {"status": live, "resourceNames": objects, "__inputs": secret(marked)}


def _missing_objects(cluster: Cluster, namespace: str, objects: Iterable[Properties]) -> bool:
    """Whether an object of the release has been deleted by hand."""
    # each with its namespace, which helm leaves out: kubectl takes one for all or none
    items = [item | {"metadata": {"namespace": namespace} | item["metadata"]} for item in objects]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    existing = cluster.kubectl("get", "--filename", "-", "--ignore-not-found", "--output", "name", text=listed)
    return len(existing.split()) < len(items)


def _checksum(chart: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(path for path in chart.rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(chart)}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return digest.hexdigest()
