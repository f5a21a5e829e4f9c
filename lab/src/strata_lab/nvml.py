"""The lab's libnvidia-ml.so.1: what NVIDIA's programs see of the GPUs that nova gave to an instance."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from strata.models.accelerator_catalogue import LONG_TERM_BRANCH, Accelerator
from strata_lab.paths import NVIDIA

LIBRARY = "libnvidia-ml.so.1"
DRIVER_VERSION = f"{LONG_TERM_BRANCH}.95.05"
PRODUCT_NAMES = {
    "gtx1080ti": "NVIDIA GeForce GTX 1080 Ti",
    "p100": "Tesla P100-PCIE-16GB",
    "v100": "Tesla V100-PCIE-16GB",
    "v100-32gb": "Tesla V100-PCIE-32GB",
    "v100s": "Tesla V100S-PCIE-32GB",
    "v100-sxm2": "Tesla V100-SXM2-16GB",
    "v100-sxm2-32gb": "Tesla V100-SXM2-32GB",
    "rtx2080ti-1e04": "NVIDIA GeForce RTX 2080 Ti",
    "rtx2080ti": "NVIDIA GeForce RTX 2080 Ti",
    "rtx5000": "Quadro RTX 5000",
    "t4": "Tesla T4",
    "a6000": "NVIDIA RTX A6000",
    "a30": "NVIDIA A30",
    "a40": "NVIDIA A40",
    "a100": "NVIDIA A100-PCIE-40GB",
    "a100-80gb": "NVIDIA A100 80GB PCIe",
    "a100-sxm4": "NVIDIA A100-SXM4-40GB",
    "a100-sxm4-80gb": "NVIDIA A100-SXM4-80GB",
    "l4": "NVIDIA L4",
    "l40": "NVIDIA L40",
    "l40s": "NVIDIA L40S",
    "h100": "NVIDIA H100 PCIe",
    "h100-sxm5": "NVIDIA H100 80GB HBM3",
    "h200": "NVIDIA H200",
    "h200-nvl": "NVIDIA H200 NVL",
}
"""What the driver calls each kind: appendix "Supported NVIDIA GPU Products" of its README, by PCI device identifier."""

_EXPORTED = re.compile(r"^EXPORT [a-z *]+\b(nvml\w+)\(", re.MULTILINE)
_NOT_SUPPORTED = '__attribute__((visibility("default"))) int {name}(void) {{ return 3; }}\n'


def kinds_header(cards: Iterable[Accelerator]) -> str:
    """The file kinds.h: one line for each NVIDIA GPU."""
    lines = []
    for card in cards:
        if card.compute_capability is None:
            continue
        major, minor = card.compute_capability
        instances = max(card.mig_profiles.values(), default=0)
        name = PRODUCT_NAMES.get(card.kind, card.description)
        size = f"{card.memory.mebibytes}, {major}, {minor}, {instances}"
        lines.append(f'{{0x{card.product_id}, "{name}", {size}}},\n')
    return "".join(lines)


def unsupported(callers: Sequence[Path]) -> list[str]:
    """Functions of NVML that programs refer to and nvml.c does not have, sorted.

    Args:
        callers: ELF files.

    Raises:
        RuntimeError: one of them is not an ELF file, or the machine has no nm.
    """
    if not callers:
        return []
    listed = _run(["nm", "--dynamic", "--undefined-only", *map(str, callers)])
    called = set(re.findall(r"\bU (nvml\w+)", listed))
    return sorted(called - set(_EXPORTED.findall((NVIDIA / "nvml.c").read_text())))


def build(cards: Iterable[Accelerator], callers: Sequence[Path], into: Path) -> Path:
    """Compiles the library.

    Args:
        cards: the kinds that it knows.
        callers: programs that will load it; each function that they refer to is in it.
        into: the directory to put it in.

    Returns:
        The library.

    Raises:
        RuntimeError: the machine has no C compiler, or it failed.
    """
    library = into / LIBRARY
    with tempfile.TemporaryDirectory(prefix="strata-nvml-") as scratch:
        (Path(scratch) / "kinds.h").write_text(kinds_header(cards))
        stubs = Path(scratch) / "stubs.c"
        stubs.write_text("".join(_NOT_SUPPORTED.format(name=name) for name in unsupported(callers)))
        flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-fPIC", "-shared", "-s"]
        link = [f"-Wl,-soname,{LIBRARY}", "-Wl,-z,defs"]
        include = [f'-DDRIVER_VERSION="{DRIVER_VERSION}"', "-I", scratch]
        _run(["cc", *flags, *link, *include, "-o", str(library), str(NVIDIA / "nvml.c"), str(stubs)])
    return library


def _run(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        raise RuntimeError(f"{command[0]} is not on this machine: apt-get install gcc libc6-dev")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout
