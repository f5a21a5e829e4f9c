"""Fields that were added by hand, from managedFields as the API server records them."""

from __future__ import annotations

import json
from typing import Any

from strata.drift.additions import additions, removal

TEMPLATE = "f:template"
HELM: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:app": {}}},
    "f:spec": {
        "f:replicas": {},
        "f:template": {
            "f:spec": {
                "f:containers": {
                    'k:{"name":"hub"}': {
                        ".": {},
                        "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
                        "f:image": {},
                        "f:name": {},
                    }
                }
            }
        },
    },
}
CONTAINER = 'k:{"name":"hub"}'


def deployment(*managers: dict[str, Any]) -> dict[str, Any]:
    environment = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}]
    container = {"name": "hub", "image": "hub:1", "env": environment, "command": ["sleep"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "hub",
            "namespace": "jupyterhub",
            "labels": {"app": "hub"},
            "annotations": {"example.org/note": "x", "deployment.kubernetes.io/revision": "2"},
            "managedFields": [{"manager": "helm", "operation": "Apply", "fieldsV1": HELM}, *managers],
        },
        "spec": {
            "replicas": 1,
            "template": {
                "metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-11-27T00:00:00Z"}},
                "spec": {"containers": [container]},
            },
        },
    }


def update(manager: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "fieldsV1": fields, **more}


def of_container(**fields: Any) -> dict[str, Any]:
    return {"f:spec": {TEMPLATE: {"f:spec": {"f:containers": {CONTAINER: fields}}}}}


def test_what_kubectl_added_is_named_by_path_and_manager() -> None:
    variables: dict[str, Any] = {f'k:{{"name":"{name}"}}': {".": {}, "f:name": {}, "f:value": {}} for name in "BC"}
    added = additions(
        deployment(
            update("kubectl-edit", of_container(**{"f:command": {}})),
            update("kubectl-set", of_container(**{"f:env": variables})),
            update("kubectl-annotate", {"f:metadata": {"f:annotations": {"f:example.org/note": {}}}}),
            update("kube-controller-manager", {"f:metadata": {"f:annotations": {".": {}}}}),
        )
    )
    container = "spec.template.spec.containers[hub]"
    assert [(addition.path, addition.manager) for addition in added] == [
        ("metadata.annotations.example.org/note", "kubectl-annotate"),
        (f"{container}.command", "kubectl-edit"),
        (f"{container}.env[B]", "kubectl-set"),
        (f"{container}.env[C]", "kubectl-set"),
    ]
    steps = [(step["op"], step["path"]) for step in json.loads(removal(added))]
    at = "/spec/template/spec/containers/0"
    assert [path for operation, path in steps if operation == "remove"] == [
        f"{at}/env/2",
        f"{at}/env/1",
        f"{at}/command",
        "/metadata/annotations/example.org~1note",
    ]
    assert ("test", f"{at}/env/1/name") in steps


def test_what_helm_or_controllers_own_is_not_named() -> None:
    restarted: dict[str, Any] = {"f:annotations": {".": {}, "f:kubectl.kubernetes.io/restartedAt": {}}}
    assert (
        additions(
            deployment(
                update("kubectl-edit", of_container(**{"f:image": {}})),
                update("kubectl-rollout", {"f:spec": {TEMPLATE: {"f:metadata": restarted}}}),
                update("kubectl-scale", {"f:spec": {"f:replicas": {}}}, subresource="scale"),
                update("kubectl-edit", {"f:status": {"f:replicas": {}}}, subresource="status"),
                update("kubectl-edit", {"f:metadata": {"f:finalizers": {".": {}, 'v:"a"': {}}}}),
                update(
                    "kube-controller-manager",
                    {"f:metadata": {"f:annotations": {"f:deployment.kubernetes.io/revision": {}}}},
                ),
                update("kueue", of_container(**{"f:command": {}})),
            )
        )
        == []
    )


def test_a_field_that_is_gone_since_is_not_named() -> None:
    assert additions(deployment(update("kubectl-patch", {"f:spec": {"f:paused": {}}}))) == []
