"""Targets, rules, alerts and dashboards, judged by the real promtool and a real Prometheus."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from strata.catalogue.needs import Metrics
from strata.catalogue.needs.metrics import MONITORING_NAMESPACE, SCRAPERS
from strata.catalogue.service import Service
from strata.catalogue.site_services import needed
from strata.models.accelerator_catalogue import CATALOGUE
from strata.report.load import FIGURES
from strata.service_modules import SERVICES
from strata.site.paths import REPOSITORY
from strata.site_file.loader import load_site
from strata_bench.module_file import load_module
from strata_bench.waiting import responds
from strata_services.prometheus_server.grafana import dashboards, expressions
from strata_services.prometheus_server.service import SERVICE, rule_files

Run = Callable[..., subprocess.CompletedProcess[str]]
Values = Callable[[Service[Any], Path], dict[str, Any]]
Objects = Callable[[Service[Any], Path], list[dict[str, Any]]]


def of_kind(objects: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    (item,) = (o for o in objects if o["kind"] == kind and (not name or o["metadata"]["name"] == name))
    return item


@pytest.fixture
def site_file(lab_with: Callable[..., Path]) -> Path:
    return lab_with(SERVICE, retention=1)


@pytest.fixture
def configuration(site_file: Path, objects_of: Objects, tmp_path: Path) -> Path:
    """prometheus.yml and its rules as the pod has them, with their paths and the API server's files in a directory."""
    objects = objects_of(SERVICE, site_file)
    text = of_kind(objects, "ConfigMap", "prometheus-server")["data"]["prometheus.yml"]
    for file in ("token", "ca.crt"):
        (tmp_path / file).write_text("")
    text = text.replace("/var/run/secrets/kubernetes.io/serviceaccount", str(tmp_path))
    (tmp_path / "rules").mkdir()
    for name, rules in of_kind(objects, "ConfigMap", "prometheus-server-rules")["data"].items():
        (tmp_path / "rules" / name).write_text(rules)
    (tmp_path / "prometheus.yml").write_text(text.replace("/etc/prometheus/rules", str(tmp_path / "rules")))
    return tmp_path / "prometheus.yml"


def test_prometheus_accepts_its_configuration(promtool: Run, configuration: Path) -> None:
    done = promtool("check", "config", "--lint-fatal", configuration)
    assert done.returncode == 0, done.stdout + done.stderr
    misspelt = configuration.with_name("wrong.yml")
    misspelt.write_text(configuration.read_text().replace("relabel_configs", "relable_configs"))
    assert promtool("check", "config", misspelt).returncode != 0


def test_recording_rules_compute(promtool: Run) -> None:
    done = promtool("test", "rules", Path(__file__).with_name("rules.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_last_card_of_a_node_is_missed(promtool: Run, tmp_path: Path) -> None:
    """Its exporter still responds, without a series."""
    (rule,) = (rule for group in yaml.safe_load((SERVICE.folder / "rules" / "alerts.yaml").read_text())["groups"]
               for rule in group["rules"] if rule.get("alert") == "AcceleratorMissing")  # fmt: skip
    series = {'node:accelerators_expected:count{node="g"}': "1x9", 'up{job="dcgm-exporter", node="g"}': "1x9"}
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": rule["expr"], "eval_time": "5m", "exp_samples": [{"labels": '{node="g"}', "value": 1}]}
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": [], "tests": [test]}))
    done = promtool("test", "rules", tmp_path / "test.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("site", "numbers"),
    [
        ("lab", {"gpu-worker-1": 1}),
        # alveo-a has no card that DCGM measures
        ("cnaf", {"a100-a": 2, "a30-a": 1, "rtx5000-a": 5, "t4-a": 4, "t4-b": 4}),
    ],
)
def test_cards_that_are_expected_are_those_of_site_yaml(site: str, numbers: dict[str, int]) -> None:
    (group,) = yaml.safe_load(rule_files(load_site(REPOSITORY / "inventories" / site / "site.yaml"))["site.yaml"])[
        "groups"
    ]
    assert {rule["labels"]["node"]: rule["expr"] for rule in group["rules"]} == {
        node: f"vector({number})" for node, number in numbers.items()
    }
    assert {rule["record"] for rule in group["rules"]} == {"node:accelerators_expected:count"}


def test_every_service_that_declares_metrics_is_a_target(site_file: Path, values_of: Values) -> None:
    given = values_of(SERVICE, site_file)
    site = load_site(site_file)
    (job,) = (j for j in given["scrapeConfigs"] if j["job_name"] == "pods")
    scraped = job["kubernetes_sd_configs"][0]["namespaces"]["names"]
    assert {service.namespace_of(site) for service, _ in needed(site, Metrics)} <= set(scraped)
    assert given["networkPolicy"]["namespaces"] == scraped
    (hosts,) = (j for j in given["scrapeConfigs"] if j["job_name"] == "node-exporter")
    assert site.cloud is not None
    assert {c["labels"]["node"] for c in hosts["static_configs"]} == {i.name for i in site.cloud.instances}
    assert set(given["rules"]) == set(rule_files(site))


def test_pods_that_policies_admit_are_prometheus(site_file: Path, objects_of: Objects) -> None:
    pod = of_kind(objects_of(SERVICE, site_file), "StatefulSet")["spec"]["template"]
    assert SERVICE.namespace_of(load_site(site_file)) == MONITORING_NAMESPACE
    for peer in SCRAPERS:
        assert peer["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_storage_is_a_volume_of_the_class(lab_with: Callable[..., Path], objects_of: Objects) -> None:
    def spec(**settings: object) -> dict[str, Any]:
        return dict(of_kind(objects_of(SERVICE, lab_with(SERVICE, **settings)), "StatefulSet")["spec"])

    (claim,) = spec(storage_class="local", storage="20 GiB")["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "local"
    assert claim["spec"]["resources"] == {"requests": {"storage": "20480Mi"}}
    assert "volumeClaimTemplates" not in spec()


def test_cards_are_simulated_in_a_lab_alone(site_file: Path, values_of: Values, tmp_path: Path) -> None:
    assert [o["kind"] for o in values_of(SERVICE, site_file)["extraObjects"]] == [
        "ConfigMap", "DaemonSet", "NetworkPolicy",
    ]  # fmt: skip
    real = tmp_path / "site.yaml"
    inventory = REPOSITORY / "inventories" / "tacc"
    for file in inventory.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_text(file.read_text())
    content = yaml.safe_load((inventory / "site.yaml").read_text())
    content["platform"]["services"][SERVICE.key] = {}
    real.write_text(yaml.safe_dump(content))
    assert values_of(SERVICE, real)["extraObjects"] == []


def test_simulated_cards_are_those_of_the_node(tmp_path: Path) -> None:
    exporter = load_module(REPOSITORY / "lab" / "accelerators" / "exporter.py")
    card = CATALOGUE["v100"]
    kinds = {f"{card.vendor_id}:{card.product_id}": {"name": card.description, "memory": card.memory.bytes}}
    network = "1572"
    present = {"0000:81:00.0": card.product_id, "0000:82:00.0": card.product_id, "0000:00:1f.0": network}
    for address, device in present.items():
        (tmp_path / "devices" / address).mkdir(parents=True)
        (tmp_path / "devices" / address / "vendor").write_text(f"0x{card.vendor_id}\n")
        (tmp_path / "devices" / address / "device").write_text(f"0x{device}\n")
    entry = {"ContainerName": "main", "ResourceName": "nvidia.com/gpu"}
    held = [
        entry | {"PodUID": "u-1", "DeviceIDs": {"-1": ["0000:82:00.0"]}},
        entry | {"PodUID": "u-gone", "DeviceIDs": {"0": ["0000:81:00.0"]}},
    ]
    (tmp_path / "checkpoint").write_text(json.dumps({"Data": {"PodDeviceEntries": held}}))
    (tmp_path / "pods" / "research_train-0_u-1").mkdir(parents=True)
    text = exporter.metrics(tmp_path / "devices", tmp_path / "checkpoint", tmp_path / "pods", kinds, "gpu-worker-1")
    use = [line for line in text.splitlines() if line.startswith("DCGM_FI_DEV_GPU_UTIL{")]
    assert len(use) == 2
    assert all('strata_simulated="true"' in line for line in use)
    assert re.search('pci_bus_id="0000:82:00.0".*namespace="research",pod="train-0",container="main".* 80$', use[1])
    assert "pod=" not in use[0]
    assert use[0].endswith(" 0")
    (tmp_path / "devices" / "0000:81:00.0" / "xid").write_text("79\n")
    (tmp_path / "devices" / "0000:81:00.0" / "temperature").write_text("90\n")
    text = exporter.metrics(tmp_path / "devices", tmp_path / "checkpoint", tmp_path / "pods", kinds, "gpu-worker-1")
    assert re.search('XID_ERRORS{.*pci_bus_id="0000:81:00.0".* 79$', text, re.MULTILINE)
    assert re.search('GPU_TEMP{.*pci_bus_id="0000:81:00.0".* 90$', text, re.MULTILINE)
    assert re.search('XID_ERRORS{.*pci_bus_id="0000:82:00.0".* 0$', text, re.MULTILINE)
    (tmp_path / "devices" / "0000:82:00.0" / "utilization").write_text("0\n")
    text = exporter.metrics(tmp_path / "devices", tmp_path / "checkpoint", tmp_path / "pods", kinds, "gpu-worker-1")
    assert re.search('GPU_UTIL{.*pci_bus_id="0000:82:00.0".*pod="train-0".* 0$', text, re.MULTILINE)


def test_energy_of_a_simulated_card_is_its_power_over_time(tmp_path: Path) -> None:
    """28 W until a pod holds it, 210 W then."""
    exporter = load_module(REPOSITORY / "lab" / "accelerators" / "exporter.py")
    card, clock = CATALOGUE["v100"], [1000.0]
    kinds = {f"{card.vendor_id}:{card.product_id}": {"name": card.description, "memory": card.memory.bytes}}
    device = tmp_path / "devices" / "0000:81:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"0x{card.vendor_id}\n")
    (device / "device").write_text(f"0x{card.product_id}\n")
    (tmp_path / "pods" / "research_train-0_u-1").mkdir(parents=True)
    meter, name = exporter.Meter(lambda: clock[0]), "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"

    def energy() -> int:
        given = (tmp_path / "devices", tmp_path / "checkpoint", tmp_path / "pods", kinds, "gpu-worker-1", meter)
        text = exporter.metrics(*given)
        assert f"# TYPE {name} counter\n" in text
        assert "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n" in text
        return int(re.search(rf"^{name}{{.*}} (\d+)$", text, re.MULTILINE)[1])  # type: ignore[index]

    assert energy() == 0
    clock[0] += 10
    held = {"ContainerName": "main", "ResourceName": "nvidia.com/gpu", "PodUID": "u-1"}
    entries = [held | {"DeviceIDs": {"-1": [device.name]}}]
    (tmp_path / "checkpoint").write_text(json.dumps({"Data": {"PodDeviceEntries": entries}}))
    assert energy() == 10 * 28 * 1000
    clock[0] += 30
    assert energy() == (10 * 28 + 30 * 210) * 1000


@contextmanager
def running(binaries: Path, configuration: Path) -> Iterator[str]:
    """A Prometheus with this configuration, its targets out of reach."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [
        str(binaries / "prometheus"), f"--config.file={configuration}", f"--web.listen-address=127.0.0.1:{port}",
        f"--storage.tsdb.path={configuration.parent / 'data'}",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            responds(f"{url}/-/ready", process)
            yield url
        finally:
            process.kill()


def test_every_panel_is_a_query(binaries: Path, configuration: Path) -> None:
    """Prometheus parses it, and it reads only metrics that something here declares or keeps."""
    without_discovery = yaml.safe_load(configuration.read_text()) | {"scrape_configs": []}
    configuration.write_text(yaml.safe_dump(without_discovery))
    queries = [(path, expression) for path in dashboards() for expression in expressions(path)]
    assert len(queries) > 40
    with running(binaries, configuration) as url:
        for path, expression in queries:
            answer = requests.get(f"{url}/api/v1/query", params={"query": expression}, timeout=60).json()
            assert answer["status"] == "success", f"{path}: {expression}: {answer}"
        refused = requests.get(f"{url}/api/v1/query", params={"query": "sum(("}, timeout=60)
        assert refused.status_code == 400


def test_no_query_hides_missing_data() -> None:
    """None returns a number in place of series that are missing; two return 0 for what the series before say is 0."""
    queries = [(path.stem, text) for path in dashboards() for text in expressions(path)]
    queries += FIGURES.items()
    for file in sorted(SERVICES.glob("*/rules/*.yaml")):
        rules = [rule for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]]
        queries += [(rule.get("record") or rule["alert"], rule["expr"]) for rule in rules]
    hiding = re.compile(r"vector\(|\bor\s+(on\s*\([^)]*\)\s*)?0\b")
    assert all(map(hiding.search, ("sum(up) or vector(0)", "sum(up) or 0 * up", "sum(up) or on (node) 0 * up")))
    assert {name for name, text in queries if hiding.search(text)} == {
        "accelerator:allocated:bool",
        "AcceleratorMissing",
    }


INFERENCE_PANELS = ("Requests", "Tokens by tenant", "Starts", "Time of a start (median)")


def test_panels_that_may_be_empty_show_when() -> None:
    boards = {path: json.loads(path.read_text()) for path in dashboards()}
    texts = {
        (path.stem, panel["title"]): text
        for path, board in boards.items()
        for panel in board["panels"]
        if (text := panel["fieldConfig"]["defaults"].get("noValue"))
    }
    assert texts == {
        ("htcondor", "CPU of execution points"): "No execution point runs.",
        ("htcondor", "Memory of execution points"): "No execution point runs.",
        ("energy", "Energy of tenants, last hour"): "No pod held an accelerator.",
        ("keycloak", "Passwords, last hour"): "No password was entered since Keycloak started.",
        ("tenant", "Accelerators allocated"): "No pod holds an accelerator.",
        ("pods", "CPU of pods"): "No pod runs.",
        ("pods", "Memory of pods"): "No pod runs.",
        ("pods", "GPU utilization of pods"): "No pod holds a GPU.",
        ("pods", "GPU memory of pods"): "No pod holds a GPU.",
        ("job", "Accelerators in use"): "No pod holds an accelerator.",
        ("job", "Accelerator utilization"): "No pod holds an accelerator.",
        ("job", "Disk"): "No pod read from a disk or wrote to one.",
        **dict.fromkeys([("inference", title) for title in INFERENCE_PANELS], "No model was asked."),
    }
    (job,) = (path for path in boards if path.stem == "job")
    assert len(list(expressions(job))) == len(list(expressions(job, full=True))) + 3


def test_dashboards_are_of_services_and_have_names_of_their_own() -> None:
    boards = [json.loads(path.read_text()) for path in dashboards()]
    assert len({board["uid"] for board in boards}) == len(boards) >= 5
    assert {board["uid"] for board in boards} >= {f"strata-{name}" for name in ("site", "tenant", "job", "accelerator")}
    for board in boards:
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        assert all(panel["targets"] for panel in board["panels"])
