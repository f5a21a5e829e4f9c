"""Pods of templates, and commands in pods, by the unmodified tapipy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strata.site.context import SiteContext
from strata_services.tapis_pods.service import SERVICE

from .test_pods import DELETE, Member, ada, member, new_name

pytestmark = pytest.mark.nightly
__all__ = ["ada", "member"]  # fixtures
MAKE = """
pod = t.pods.create_pod(pod_id=web, template="web")
output = {"template": pod.template.partition("@")[0]}
pod = wait(web, "AVAILABLE")
output["page"] = "Directory listing" in read(pod.networking.default.url)
ran = t.pods.exec_pod_commands(pod_id=web, commands=[["sh", "-c", "echo out; echo err >&2; cat; hostname"], ["/none"],
                                                     ["sh", "-c", "exit 3"], ["sleep", "600"]],
                               command_timeout=3, fail_on_non_success=False)
first, absent, failed, hung = ran.execution_results
output["exec"] = [first.stdout.split(), first.stderr.strip(), first.success]
output["exec"] += [ran.total_commands, ran.successful_commands]
output["absent"], output["failed"] = "/none" in absent.stderr, failed.success
output["hung"] = "not waited for" in hung.stderr
(long,) = t.pods.exec_pod_commands(pod_id=web, commands=["head", "-c", "3000000", "/dev/zero"]).execution_results
output["long"] = len(long.stdout)
template = os.environ["TEMPLATE"]
saved = t.pods.save_pod_as_template_tag(pod_id_net=web, template_id=template, commit_message="from a pod", tag="v1")
output["saved"] = saved.pod_definition.networking.default.port
shared = t.pods.set_template_permission(template_id=template, user=os.environ["COLLEAGUE"], level="READ")
output["shared"] = sorted(shared.permissions)
print(json.dumps(output))
"""
COLLEAGUE = """
template = os.environ["TEMPLATE"] + ":v1"
t.pods.create_pod(pod_id=web, template=template)
pod = wait(web, "AVAILABLE")
output = {"page": "Directory listing" in read(pod.networking.default.url)}
output["other"] = refused(t.pods.exec_pod_commands, pod_id=os.environ["OTHER"], commands=["id"])
output["tag"] = refused(t.pods.save_pod_as_template_tag, pod_id_net=web, template_id=os.environ["TEMPLATE"],
                        commit_message="mine")
output["image"] = refused(t.pods.add_image, image="docker.io/library/nginx")
print(json.dumps(output))
"""
STRANGER = """
template = os.environ["TEMPLATE"]
output = {"templates": [template.template_id for template in t.pods.list_templates()]}
output["get"] = refused(t.pods.get_template, template_id=template)
output["tags"] = refused(t.pods.list_template_tags, template_id=template)
own = {"user": os.environ["STRATA_USER"], "level": "READ"}
output["share"] = refused(t.pods.set_template_permission, template_id=template, **own)
output["delete"] = refused(t.pods.delete_template, template_id=template)
output["exec"] = refused(t.pods.exec_pod_commands, pod_id=web, commands=["id"])
output["create"] = refused(t.pods.create_pod, pod_id="labtheft", template=template + ":v1")
print(json.dumps(output))
"""
NOTEBOOK = """
pod = t.pods.create_pod(pod_id=web, template="notebook")
wait(web, "AVAILABLE")
print(json.dumps({"page": "Jupyter" in read(pod.networking.default.url)}))
"""
CLEAN = """
t.pods.delete_template(template_id=os.environ["TEMPLATE"])
"""


def test_a_pod_of_a_template_runs_commands_and_becomes_a_template(
    context: SiteContext, ada: Member, member: Callable[[str], Member]
) -> None:
    first, second = (tenant.name for tenant in context.site.platform.tenants[:2])
    settings = SERVICE.of(context.site)
    assert settings is not None
    assert "web" in [template.name for template in settings.templates]
    colleague, stranger = member(first), member(second)
    web, other, template = new_name("web"), new_name("copy"), new_name("template")
    try:
        output = ada.run(MAKE, web, WEB=web, TEMPLATE=template, COLLEAGUE=colleague.name)
        assert output == {
            "template": "web:latest",
            "page": True,
            "exec": [["out", f"pods-{web}"], "err", True, 4, 1],
            "absent": True,
            "failed": False,
            "hung": True,
            "long": 1 << 20,
            "saved": 8000,
            "shared": sorted([f"{ada.name}:ADMIN", f"{colleague.name}:READ"]),
        }

        made = colleague.run(COLLEAGUE, other, WEB=other, TEMPLATE=template, OTHER=web)
        assert made["page"] is True
        kinds = {key: made[key][0] for key in ("other", "tag", "image")}
        assert kinds == {"other": "NotFoundError", "tag": "ForbiddenError", "image": "ForbiddenError"}

        refused = stranger.run(STRANGER, WEB=web, TEMPLATE=template)
        assert refused.pop("templates") == sorted(template.name for template in settings.templates)
        assert refused.pop("create")[0] == "BadRequestError"
        assert {kind for kind, _ in refused.values()} == {"NotFoundError"}, refused
    finally:
        ada.run(CLEAN + DELETE, WEB=web, TEMPLATE=template)


def test_a_notebook_of_a_template(ada: Member) -> None:
    web = new_name("notebook")
    try:
        assert ada.run(NOTEBOOK, web, WEB=web) == {"page": True}
    finally:
        ada.run(DELETE, WEB=web)
