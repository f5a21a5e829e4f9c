"""NVIDIA's device plugin and GPU feature discovery on the lab's libnvidia-ml.so.1, before a kubelet of the tests.

Both are built from the Go module of the pinned version, which takes minutes of CPU time without Go's cache: long tests.
The plugin's directories are fixed; in a mount namespace of its own they are the tests'.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import grpc
import pytest

from strata.models.accelerator_catalogue import NVIDIA_RESOURCE
from strata.models.site import Site
from strata.platform.nvidia_device_plugin import configurations

from ... import nvidia_programs
from ...nvidia_programs import FEATURE_DISCOVERY, PLUGIN
from .kubelet import SECONDS, Kubelet

pytestmark = pytest.mark.nightly

ADDRESSES = ("0000:3b:00.0", "0000:5e:00.0")
UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
IN_ITS_PLACES = """
mount -t tmpfs tmpfs /var/lib
mkdir -p /var/lib/kubelet/device-plugins
mount --bind "$1" /var/lib/kubelet/device-plugins
mount --bind "$2" /sys/bus/pci/devices
shift 2
exec "$@"
"""
Start = Callable[[Mapping[str, int]], Kubelet]
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with both programs and the library."""
    if subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets the tests make no mount namespace")
    directory = tmp_path_factory.mktemp("programs")
    nvidia_programs.build(directory)
    return directory


@pytest.fixture
def cards(tmp_path: Path) -> Path:
    """A directory as /etc/strata/pci/devices with two V100, on two NUMA nodes."""
    for number, address in enumerate(ADDRESSES):
        directory = tmp_path / "devices" / address
        directory.mkdir(parents=True)
        for name, text in {"vendor": "0x10de", "device": "0x1db4", "class": "0x030200", "numa_node": number}.items():
            (directory / name).write_text(f"{text}\n")
        (directory / "uuid").write_text(f"GPU-0000000{number}-0000-0000-0000-000000000000\n")
    return tmp_path / "devices"


FIRST, SECOND = (f"GPU-0000000{number}-0000-0000-0000-000000000000" for number in range(2))


@pytest.fixture
def sockets() -> Iterator[Path]:
    """The kubelet's directory; short, because the path of a socket has 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="kubelet-") as directory:
        yield Path(directory)


@pytest.fixture
def environment(programs: Path, cards: Path) -> dict[str, str]:
    variables = {
        "LD_LIBRARY_PATH": str(programs),
        "STRATA_PCI_ROOT": str(cards),
        "NODE_NAME": "gpu-worker-1",
        "DEVICE_DISCOVERY_STRATEGY": "nvml",
        "MIG_STRATEGY": "none",
    }
    return {**os.environ, **variables}


def configuration(directory: Path, sharing: Mapping[str, int]) -> Path:
    """The configuration file that Strata gives to the plugin on the nodes of a pool."""
    pools = [{"name": "pool", "nodes": ["gpu-1"], "sharing": dict(sharing)}]
    cluster = {"name": "metal", "datastore": "etcd", "gpu_nodes": {"pools": pools}}
    content = {"name": "metal", "domain": "example.org", "access": {"ssh": ["192.0.2.1/32"]}, "cluster": cluster}
    file = directory / "config.yaml"
    file.write_text(json.dumps(configurations(Site.model_validate(content))["pool"]))
    return file


@pytest.fixture
def started(programs: Path, cards: Path, sockets: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """`started(sharing)` starts the plugin beside a kubelet, which it returns; both end with the test."""
    processes: list[subprocess.Popen[bytes]] = []
    log = tmp_path / "plugin.log"

    def start(sharing: Mapping[str, int]) -> Kubelet:
        variables = {**environment, "CONFIG_FILE": str(configuration(tmp_path, sharing))}
        command = [*UNSHARE, "sh", "-ec", IN_ITS_PLACES, "sh", str(sockets), str(cards)]
        with log.open("wb") as output:
            program = str(programs / PLUGIN)
            processes.append(subprocess.Popen([*command, program], env=variables, stdout=output, stderr=output))
        return Kubelet(sockets)

    yield start
    for process in processes:
        process.terminate()
        process.wait(timeout=SECONDS)
    print(log.read_text())  # pytest shows it where a test fails


def test_each_card_is_one_device(started: Start) -> None:
    kubelet = started({})
    with kubelet.running(), kubelet.plugin() as plugin:
        assert plugin.resource == NVIDIA_RESOURCE
        devices = plugin.next_list()
        assert {d.ID: (d.health, [n.ID for n in d.topology.nodes]) for d in devices} == {
            FIRST: (HEALTHY, [0]),
            SECOND: (HEALTHY, [1]),
        }
        assert {e.key: e.value for e in plugin.allocate(SECOND).envs} == {"NVIDIA_VISIBLE_DEVICES": SECOND}
        with pytest.raises(grpc.RpcError, match="invalid allocation request"):
            plugin.allocate("GPU-of-another-node")


def test_a_shared_card_is_as_many_devices_as_pods_may_share_it(started: Start) -> None:
    kubelet = started({"time_slicing": 4})
    with kubelet.running(), kubelet.plugin() as plugin:
        shares = plugin.devices()
        assert sorted(shares) == [f"{card}::{number}" for card in (FIRST, SECOND) for number in range(4)]
        assert {e.value for e in plugin.allocate(f"{FIRST}::3").envs} == {FIRST}
        with pytest.raises(grpc.RpcError, match="maximum request size for shared resources is 1"):
            plugin.allocate(f"{FIRST}::0", f"{FIRST}::1")


def test_a_broken_card_is_unhealthy(started: Start, cards: Path) -> None:
    kubelet = started({})
    with kubelet.running(), kubelet.plugin() as plugin:
        assert plugin.devices() == {FIRST: HEALTHY, SECOND: HEALTHY}
        # an error of an application, then one of the hardware: only the latter is reported
        (cards / ADDRESSES[0] / "xid").write_text("13\n")
        (cards / ADDRESSES[1] / "xid").write_text("48\n")
        assert plugin.devices() == {FIRST: HEALTHY, SECOND: UNHEALTHY}


def test_of_a_broken_shared_card_one_share_is_unhealthy(started: Start, cards: Path) -> None:
    """Not what one would want: 0.19.3 keeps one device for each card that it watches."""
    kubelet = started({"time_slicing": 4})
    with kubelet.running(), kubelet.plugin() as plugin:
        assert set(plugin.devices().values()) == {HEALTHY}
        (cards / ADDRESSES[0] / "xid").write_text("48\n")
        plugin.devices()
        # a second share of the first card would be reported before the second card is
        (cards / ADDRESSES[1] / "xid").write_text("48\n")
        broken = [share.partition("::")[0] for share, health in plugin.devices().items() if health == UNHEALTHY]
        assert sorted(broken) == [FIRST, SECOND]


def test_a_card_that_falls_off_the_bus_is_unhealthy(started: Start, cards: Path) -> None:
    kubelet = started({})
    with kubelet.running(), kubelet.plugin() as plugin:
        assert plugin.devices() == {FIRST: HEALTHY, SECOND: HEALTHY}
        (cards / ADDRESSES[0]).rename(cards.parent / "removed")
        assert plugin.devices() == {FIRST: UNHEALTHY, SECOND: HEALTHY}


def test_a_restarted_kubelet_hears_of_it_again(started: Start) -> None:
    kubelet = started({})
    with kubelet.running(), kubelet.plugin() as plugin:
        assert set(plugin.devices()) == {FIRST, SECOND}
    with kubelet.running(), kubelet.plugin() as plugin:
        assert plugin.devices() == {FIRST: HEALTHY, SECOND: HEALTHY}


@pytest.mark.parametrize(
    ("sharing", "product", "replicas"),
    [({}, "Tesla-V100-PCIE-16GB", "1"), ({"time_slicing": 4}, "Tesla-V100-PCIE-16GB-SHARED", "4")],
)
def test_labels_show_what_the_driver_sees(
    programs: Path,
    environment: dict[str, str],
    cards: Path,
    sockets: Path,
    tmp_path: Path,
    sharing: Mapping[str, int],
    product: str,
    replicas: str,
) -> None:
    output = tmp_path / "gfd"
    variables = {
        **environment,
        "CONFIG_FILE": str(configuration(tmp_path, sharing)),
        "GFD_ONESHOT": "true",
        "GFD_USE_NODE_FEATURE_API": "false",
        "GFD_OUTPUT_FILE": str(output),
    }
    command = [*UNSHARE, "sh", "-ec", IN_ITS_PLACES, "sh", str(sockets), str(cards), str(programs / FEATURE_DISCOVERY)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    labels = dict(line.split("=", 1) for line in output.read_text().splitlines())
    expected = {
        "count": "2",
        "product": product,
        "memory": "16384",
        "compute.major": "7",
        "compute.minor": "0",
        "family": "volta",
        "replicas": replicas,
        "sharing-strategy": "time-slicing" if sharing else "none",
    }
    assert {name: labels[f"nvidia.com/gpu.{name}"] for name in expected} == expected
