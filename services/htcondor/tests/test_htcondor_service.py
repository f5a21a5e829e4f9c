"""The declaration of HTCondor: its values, its Secrets, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest
import yaml

from strata.catalogue.needs import BatchQueue
from strata.catalogue.service import Service
from strata.catalogue.site_volumes import volumes
from strata.platform.release_secrets import secret_manifests
from strata.platform.releases import PlatformState, releases, service_context
from strata.site_file.loader import load_site
from strata.site_file.problems import SiteError
from strata_services.accounting.service import SERVICE as READER
from strata_services.htcondor.needs import EXECUTE_NAMESPACE, NAMESPACE, SIGNING_KEY
from strata_services.htcondor.schedds import schedds
from strata_services.htcondor.service import SERVICE
from strata_services.htcondor.tokens import derived_key, idtoken

TORCH = f"registry.example.org/torch@sha256:{64 * '1'}"
ValuesOf = Callable[[Service[Any], Path], dict[str, Any]]
ObjectsOf = Callable[[Service[Any], Path], list[dict[str, Any]]]
LabWith = Callable[..., Path]
StateOf = Callable[[Path], PlatformState]


def configuration(objects: list[dict[str, Any]], part: str) -> str:
    """The configuration of one part of the pool."""
    (config_map,) = (o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"] == f"htcondor-{part}")
    return "\n".join(config_map["data"].values())


def execution_point(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """The template that the provisioner has."""
    (config_map,) = (o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"] == "htcondor-provisioner")
    return dict(json.loads(config_map["data"]["job.json"])["spec"]["template"]["spec"])


def test_shares_are_the_tenants_quotas_unless_the_site_sets_others(values_of: ValuesOf, lab_with: LabWith) -> None:
    quota = {"name": "research", "cpus": 8, "memory": 16384, "cards": 1, "priorityFactor": 1}
    teaching = {"name": "teaching", "cpus": 4, "memory": 4096, "cards": 0, "priorityFactor": 1}

    def shares(**settings: Any) -> list[dict[str, Any]]:
        tenants = values_of(SERVICE, lab_with(SERVICE, **settings))["tenants"]
        return [{key: tenant[key] for key in quota} for tenant in tenants]

    assert shares(accelerator="v100") == [quota, teaching]
    assert shares() == [{**quota, "cards": 0}, teaching]
    share = {"name": "research", "cpus": 2, "memory": "1 GiB", "priority_factor": 3}
    tenants = shares(accelerator="v100", tenants=[share])
    assert tenants == [{"name": "research", "cpus": 2, "memory": 1024, "cards": 1, "priorityFactor": 3}, teaching]


def test_execution_points_have_the_batch_priority_and_only_their_own_token(
    objects_of: ObjectsOf, lab_with: LabWith
) -> None:
    spec = execution_point(objects_of(SERVICE, lab_with(SERVICE)))
    assert spec["priorityClassName"] == "batch"
    assert spec["automountServiceAccountToken"] is False
    (secret,) = (volume["secret"] for volume in spec["volumes"] if "secret" in volume)
    assert [item["key"] for item in secret["items"]] == ["execute-token"]
    assert secret["defaultMode"] == 0o400
    (container,) = spec["containers"]
    context = container["securityContext"]
    assert context["capabilities"]["drop"] == ["ALL"]
    # what the Pod Security level baseline admits
    assert set(context["capabilities"]["add"]) <= {"CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"}
    assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
    assert spec["terminationGracePeriodSeconds"] > 2 + 2


def test_jobs_have_the_folders_of_tenants_in_their_namespace(
    values_of: ValuesOf, objects_of: ObjectsOf, lab_with: LabWith
) -> None:
    site_file = lab_with(SERVICE, shared_export="tenants")
    assert values_of(SERVICE, site_file)["execute"]["shared"] == {
        "research": {"claim": "tenants-research", "group": 20001},
        "teaching": {"claim": "tenants-teaching", "group": 20002},
    }
    settings = configuration(objects_of(SERVICE, site_file), "provisioner")
    assert '"shared":{"research":{"claim":"tenants-research","group":20001}' in settings
    claims = {(v.namespace, v.claim, v.path) for v in volumes(load_site(site_file))}
    assert ("htcondor-execute", "tenants-research", "/tenants/research") in claims


def test_jobs_run_in_the_notebooks_image_or_one_of_the_sites(
    values_of: ValuesOf, context_of: Callable[..., Any], lab_with: LabWith
) -> None:
    site_file = lab_with(SERVICE, images=[{"name": "torch", "image": TORCH}])
    execute = values_of(SERVICE, site_file)["execute"]
    notebook = context_of(SERVICE, site_file).pushed["jupyterhub-notebook"]
    assert execute["images"] == {"notebook": str(notebook), "torch": TORCH}
    assert execute["defaultImage"] == "notebook"
    content = yaml.safe_load(site_file.read_text())
    for key in ("jupyterhub", "dask_gateway"):
        content["platform"]["services"].pop(key, None)
    site_file.write_text(yaml.safe_dump(content))
    execute = values_of(SERVICE, site_file)["execute"]
    assert (execute["images"], execute["defaultImage"]) == ({"torch": TORCH}, "htcondor")


def test_the_signing_key_stays_in_the_namespace_without_jobs(state: StateOf, lab_with: LabWith) -> None:
    site_state = state(lab_with(SERVICE))
    manifests = secret_manifests(site_state, ["htcondor"])
    assert set(manifests) == {(n.name, "htcondor-secrets") for n in (NAMESPACE, EXECUTE_NAMESPACE)}
    assert set(manifests[EXECUTE_NAMESPACE.name, "htcondor-secrets"]["data"]) == {"execute-token"}
    (release,) = (release for release in releases(site_state.site) if release.name == "htcondor")
    assert {"namespace-htcondor", "namespace-htcondor-execute"} <= set(release.after)


def test_tokens_change_with_the_key_only(lab_with: LabWith, context_of: Callable[..., Any], fake_secrets: Any) -> None:
    context = context_of(SERVICE, lab_with(SERVICE))
    before = context.secret_data()
    assert context.secret_data() == before
    claims = jwt.decode(before["monitor-token"], options={"verify_signature": False})
    assert claims["sub"] == "monitor@lab.strata.test"
    assert claims["scope"] == "condor:/READ"
    fake_secrets.stored[SIGNING_KEY.name] = "another"
    assert context.secret_data()["monitor-token"] != before["monitor-token"]


def test_a_token_is_htcondors_own() -> None:
    # of condor_token_create 23.9.6, with this key in the file POOL
    made = (
        "eyJhbGciOiJIUzI1NiIsImtpZCI6IlBPT0wifQ.eyJpYXQiOjE3OTUzOTExNTgsImlzcyI6ImxhYi5zdHJhdGEudGVzdCIsImp0aSI6IjdjMmIx"
        "MjZlZmYzNmQ2ZTc1MGMxNmRlNDI2MDdjZDVlIiwic3ViIjoiYm9iQHJlc2VhcmNoIn0.N0SpEcD4JzgAsD8L-xKhfqq6fJyoPGa1xj3ELJgfkNE"
    )
    key = derived_key("abcdefghijklmnopqrstuvwxyz0123456789")
    assert jwt.decode(made, key, algorithms=["HS256"])["sub"] == "bob@research"
    own = idtoken("abcdefghijklmnopqrstuvwxyz0123456789", "bob@research", "lab.strata.test", ["READ"])
    assert jwt.decode(own, key, algorithms=["HS256"])["scope"] == "condor:/READ"
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(idtoken("other", "bob@research", "lab", []), key, algorithms=["HS256"])


def test_jobs_beyond_a_tenants_share_are_refused(objects_of: ObjectsOf, lab_with: LabWith) -> None:
    with_cards = configuration(objects_of(SERVICE, lab_with(SERVICE, accelerator="v100")), "access-point")
    rules = [
        '(AcctGroup == "research" && RequestCpus <= 8 && RequestMemory <= 16384 && (RequestGPUs ?: 0) <= 1)',
        '(AcctGroup == "teaching" && RequestCpus <= 4 && RequestMemory <= 4096 && (RequestGPUs ?: 0) <= 0)',
    ]
    assert f"SUBMIT_REQUIREMENT_Limits = False || {' || '.join(rules)}\n" in with_cards
    without = configuration(objects_of(SERVICE, lab_with(SERVICE)), "access-point")
    assert "(RequestGPUs ?: 0) <= 1)" not in without


def test_names_of_settings_are_identifiers(objects_of: ObjectsOf, lab_with: LabWith) -> None:
    """HTCondor's daemons end at any other name; a tenant's may have dashes."""
    file = lab_with(SERVICE, accelerator="v100", queues=["day-time", "night"])
    file.write_text(file.read_text().replace("research", "ml-team").replace("name: teaching", "name: 2-b"))
    objects = objects_of(SERVICE, file)
    for part in ("central-manager", "access-point", "client", "execution-point"):
        text = re.sub(r"(?ms)^(\w+) @=end$.*?^@end$", r"\1 =", configuration(objects, part))
        lines = [line for line in text.splitlines() if line and not line.startswith(("#", "use ", "include "))]
        assert lines
        assert [line for line in lines if not re.match(r"[A-Za-z_][A-Za-z0-9_.]* *=", line)] == [], part
    manager = configuration(objects, "central-manager").splitlines()
    assert {"GROUP_NAMES = ml_team, 2_b", "GROUP_QUOTA_ml_team = 8", "GROUP_QUOTA_2_b = 4"} <= set(manager)
    point = configuration(objects, "access-point").splitlines()
    assert {f'SCHEDD_{i}_ENVIRONMENT = "_CONDOR_STRATA_TENANT={t}"' for i, t in enumerate(["ml-team", "2-b"])} <= set(
        point
    )
    assert {"DAEMON_LIST = MASTER SCHEDD_0 SCHEDD_1", "DC_DAEMON_LIST = + SCHEDD_0 SCHEDD_1"} <= set(point)


def test_a_site_has_several_tenants(objects_of: ObjectsOf, lab_with: LabWith) -> None:
    """Unquoted, the second name was a key of its own in the variable, which Kubernetes refuses."""
    objects = objects_of(SERVICE, lab_with(SERVICE))
    (point,) = (o for o in objects if o["kind"] == "StatefulSet" and o["metadata"]["name"] == "htcondor-access-point")
    (tokens,) = (c for c in point["spec"]["template"]["spec"]["containers"] if c["name"] == "tokens")
    (variable,) = (variable for variable in tokens["env"] if variable["name"] == "STRATA_TENANTS")
    assert variable == {"name": "STRATA_TENANTS", "value": "research,teaching"}


def test_a_schedds_port_is_its_tenants_for_ever(lab_with: LabWith) -> None:
    """Running servers have it in their environment: a tenant that comes or goes changes no other's."""
    file = lab_with(SERVICE)
    before = schedds(load_site(file))
    assert [schedd.name for schedd in before.values()] == ["research@lab.strata.test", "teaching@lab.strata.test"]
    assert len({schedd.address for schedd in before.values()}) == 2
    content = yaml.safe_load(file.read_text())
    content["platform"]["tenants"].insert(
        0, {"name": "biology", "quota": {"cpu": 1, "memory": "1 GiB"}, "group_id": 29999}
    )
    file.write_text(yaml.safe_dump(content))
    after = schedds(load_site(file))
    assert {name: after[name] for name in before} == before
    assert after["biology"].port not in {schedd.port for schedd in before.values()}


def test_pods_reach_the_schedd_of_their_tenant_only(objects_of: ObjectsOf, lab_with: LabWith) -> None:
    """A user's server that of its tenant, that of the checks the first one; accounting, which reads all, the pool."""
    file = lab_with(SERVICE)
    queues = schedds(load_site(file))
    policies = {
        o["metadata"]["name"]: o["spec"]
        for o in objects_of(SERVICE, file)
        if o["kind"] == "NetworkPolicy" and "namespace" not in o["metadata"]
    }

    def labels(rule: dict[str, Any]) -> list[dict[str, str]]:
        return [peer["podSelector"]["matchLabels"] for peer in rule["from"]]

    (daemons,), (tokens,) = (policies[name]["ingress"] for name in ("htcondor", "htcondor-tokens"))
    assert labels(daemons)[2:] == [{"app.kubernetes.io/name": "accounting"}]
    assert [
        pod_labels.get("component", pod_labels.get("app.kubernetes.io/component")) for pod_labels in labels(tokens)
    ] == [
        "provisioner",
        "hub",
    ]
    research, teaching = policies["htcondor-schedds"]["ingress"]
    server = {"component": "singleuser-server"}
    verify = {"hub.jupyter.org/username": "strata-verify"}
    assert labels(research) == [{**server, "strata.dev/tenant": "research"}, verify]
    assert labels(teaching) == [{**server, "strata.dev/tenant": "teaching"}]
    ports = [[port["port"] for port in rule["ports"]] for rule in (research, teaching)]
    assert ports == [[queues["research"].port], [queues["teaching"].port]]


def test_no_member_reads_what_all_tenants_share(objects_of: ObjectsOf, lab_with: LabWith) -> None:
    """Collector, negotiator, masters and execution points know the pool's own readers; a schedd also its tenant."""
    objects = objects_of(SERVICE, lab_with(SERVICE))
    for part in ("central-manager", "execution-point", "client"):
        lines = [line for line in configuration(objects, part).splitlines() if line.startswith("ALLOW_")]
        assert "ALLOW_READ = $(STRATA_DAEMONS) $(STRATA_READERS)" in lines
        assert not [line for line in lines if "*" in line]
    point = configuration(objects, "access-point").splitlines()
    allowed = [line for line in point if line.startswith("ALLOW_") and "*" in line]
    assert [line.split()[2] for line in allowed] == ["$(STRATA_TENANT).*@$(UID_DOMAIN)"] * 2


def test_a_reader_of_the_queue_gets_what_it_asks_for(lab_with: LabWith, state: StateOf) -> None:
    need = BatchQueue(("app.kubernetes.io/name=accounting",), monitor=True)
    reader: Service[Any] = replace(READER, needs=lambda settings: (*READER.needs(settings), need))
    context = service_context(reader, state(lab_with(SERVICE)))
    access = context.provide(need)
    assert access is not None
    assert access.server.collector == "htcondor-central-manager.htcondor.svc:9618"
    assert access.token_secret is None
    assert access.monitor_token is not None
    data = context.secret_data()
    claims = jwt.decode(data[access.monitor_token.key], options={"verify_signature": False})
    assert claims["sub"] == "monitor@lab.strata.test"
    assert not [key for key in data if "secret" in key]


@pytest.mark.parametrize(
    ("settings", "finding"),
    [
        ({"tenants": [{"name": "no-such"}]}, "the site has no tenant no-such"),
        ({"tenants": [{"name": "research"}, {"name": "research"}]}, "duplicate: research"),
        ({"tenants": [{"name": "research", "cards": 1}]}, "no cards without `accelerator`"),
        ({"accelerator": "a100"}, "needs 1 × a100"),
        ({"images": [{"name": "notebook", "image": TORCH}]}, "the pool has an image notebook already"),
        ({"images": [{"name": "torch", "image": TORCH}, {"name": "torch", "image": TORCH}]}, "duplicate: torch"),
        ({"images": [{"name": "torch", "image": "registry.example.org/torch:latest"}]}, "images[0].image"),
        ({"default_image": "torch"}, "the pool has no image torch"),
    ],
)
def test_it_refuses(lab_with: LabWith, settings: dict[str, Any], finding: str) -> None:
    with pytest.raises(SiteError) as caught:
        load_site(lab_with(SERVICE, **settings))
    assert finding in str(caught.value)
