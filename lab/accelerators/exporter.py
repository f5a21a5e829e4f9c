"""Metrics of simulated cards under the names of NVIDIA's DCGM exporter; every series has strata_simulated="true".

Which cards a node has, and which pod each is allocated to, is real: the former from the PCI devices that the instance
was given, the latter from the kubelet's checkpoint. Load, temperature, power and clock are made up from that, energy is
that power over time. A fault is simulated by a file in the device's directory: `xid` with the number of an Xid error,
`temperature` in °C, `utilization` in percent.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

DEVICES = Path("/host/pci/devices")
CHECKPOINT = Path("/host/kubelet/kubelet_internal_checkpoint")
POD_LOGS = Path("/host/pods")
"""One directory for each pod on the node, <namespace>_<name>_<uid>."""
PORT = 9400
MEBIBYTE = 2**20
COUNTERS = {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"}
"""All others are gauges."""


class Meter:
    """Energy of cards since their first reading, as the driver counts it since its start.

    Args:
        clock: seconds, which only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._readings: dict[str, tuple[float, int, float]] = {}

    def read(self, card: str, watts: int) -> int:
        """Millijoules until now.

        Args:
            card: its address.
            watts: from now to the next reading.
        """
        with self._lock:
            now = self._clock()
            before, power, total = self._readings.get(card, (now, watts, 0.0))
            total += 1000 * power * (now - before)
            self._readings[card] = (now, watts, total)
            return int(total)


METER = Meter()


def cards(devices: Path, kinds: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """PCI address and kind of each card, by address."""
    for directory in sorted(devices.iterdir()) if devices.is_dir() else ():
        try:
            identifiers = [(directory / name).read_text().strip().removeprefix("0x") for name in ("vendor", "device")]
        except OSError:
            continue
        if kind := kinds.get(":".join(identifiers)):
            yield directory.name, kind


def number(file: Path, default: int) -> int:
    """The number in a file; the default where there is none."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return default


def holders(checkpoint: Path, pod_logs: Path) -> dict[str, dict[str, str]]:
    """Device to namespace, pod and container that it is allocated to."""
    try:
        entries = json.loads(checkpoint.read_text())["Data"]["PodDeviceEntries"] or []
        pods = {parts[2]: parts[:2] for path in pod_logs.iterdir() if len(parts := path.name.split("_")) == 3}
    except (OSError, ValueError, KeyError):
        return {}
    by_device = {}
    for entry in entries:
        # an entry stays until the next allocation, the directory is removed with the pod
        if (pod := pods.get(entry["PodUID"])) is None:
            continue
        labels = {"namespace": pod[0], "pod": pod[1], "container": entry["ContainerName"]}
        by_device |= {device: labels for numa in entry["DeviceIDs"].values() for device in numa}
    return by_device


def metrics(
    devices: Path, checkpoint: Path, pod_logs: Path, kinds: dict[str, dict[str, Any]], node: str, meter: Meter = METER
) -> str:
    """The text of /metrics."""
    held = holders(checkpoint, pod_logs)
    lines: dict[str, list[str]] = {}
    for index, (address, kind) in enumerate(cards(devices, kinds)):
        labels = {
            "gpu": str(index), "UUID": f"GPU-simulated-{node}-{address}", "pci_bus_id": address,
            "device": f"nvidia{index}", "modelName": kind["name"], "Hostname": node, "strata_simulated": "true",
            **held.get(address, {}),
        }  # fmt: skip
        busy = address in held
        memory = kind["memory"] // MEBIBYTE
        used = memory * 6 // 10 if busy else 0
        watts = 210 if busy else 28
        values = {
            "GPU_UTIL": number(devices / address / "utilization", 80 if busy else 0),
            "MEM_COPY_UTIL": 40 if busy else 0,
            "FB_USED": used, "FB_FREE": memory - used,
            "GPU_TEMP": number(devices / address / "temperature", 65 if busy else 35),
            "POWER_USAGE": watts, "TOTAL_ENERGY_CONSUMPTION": meter.read(address, watts),
            "SM_CLOCK": 1380 if busy else 135,
            "XID_ERRORS": number(devices / address / "xid", 0),
        }  # fmt: skip
        text = ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items())
        for name, value in values.items():
            lines.setdefault(f"DCGM_FI_DEV_{name}", []).append(f"DCGM_FI_DEV_{name}{{{text}}} {value}\n")
    return "".join(
        f"# TYPE {name} {'counter' if name in COUNTERS else 'gauge'}\n{''.join(series)}"
        for name, series in lines.items()
    )


class Handler(BaseHTTPRequestHandler):
    """Serves /metrics."""

    timeout = 10

    def do_GET(self) -> None:
        body = metrics(DEVICES, CHECKPOINT, POD_LOGS, json.loads(os.environ["KINDS"]), os.environ["NODE"]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Scrapes are not logged."""


if __name__ == "__main__":
    sys.exit(ThreadingHTTPServer(("", PORT), Handler).serve_forever())
