"""The lab's libnvidia-ml.so.1, called as NVIDIA's programs call it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strata.models.accelerator_catalogue import CATALOGUE
from strata_lab import nvml

SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, INSUFFICIENT_SIZE, DRIVER_NOT_LOADED, TIMEOUT, GPU_IS_LOST = (
    0, 2, 3, 7, 9, 10, 15,
)  # fmt: skip
XID_EVENT = 8
V100, T4, A100 = "1db4", "1eb8", "20f1"

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) on PATH")


class Event(ctypes.Structure):
    """nvmlEventData_t."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nvml.build(CATALOGUE.values(), [], tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def card(tmp_path: Path) -> Callable[..., Path]:
    """`card(address, device)` puts one into the directory that the library reads."""

    def put(address: str, device: str, vendor: str = "10de") -> Path:
        directory = tmp_path / "devices" / address
        directory.mkdir(parents=True)
        for name, text in {"vendor": f"0x{vendor}", "device": f"0x{device}", "numa_node": "1"}.items():
            (directory / name).write_text(f"{text}\n")
        return directory

    return put


@pytest.fixture
def library(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    """Not initialized yet; counts no user of other tests."""
    monkeypatch.setenv("STRATA_PCI_ROOT", str(tmp_path / "devices"))
    monkeypatch.setenv("NODE_NAME", "gpu-worker-1")
    loaded = ctypes.CDLL(str(compiled))
    yield loaded
    while loaded.nvmlShutdown() == SUCCESS:
        pass


def handles(library: ctypes.CDLL) -> list[ctypes.c_void_p]:
    """Of all cards, lost ones too."""
    number = ctypes.c_uint()
    assert library.nvmlDeviceGetCount_v2(ctypes.byref(number)) == SUCCESS
    devices = [ctypes.c_void_p() for _ in range(number.value)]
    for index, handle in enumerate(devices):
        assert library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) in (SUCCESS, GPU_IS_LOST)
    return devices


def text(function: Callable[..., int], handle: ctypes.c_void_p) -> str:
    buffer = ctypes.create_string_buffer(96)
    assert function(handle, buffer, len(buffer)) == SUCCESS
    return buffer.value.decode()


def memory(library: ctypes.CDLL, handle: ctypes.c_void_p) -> tuple[int, int]:
    """Result, and the total in bytes."""
    sizes = (ctypes.c_ulonglong * 3)()
    return library.nvmlDeviceGetMemoryInfo(handle, sizes), sizes[0]


def test_every_gpu_of_the_catalogue_has_a_product_name() -> None:
    assert set(nvml.PRODUCT_NAMES) == {kind for kind, card in CATALOGUE.items() if card.compute_capability}


@needs_compiler
def test_cards_are_those_of_the_directory(library: ctypes.CDLL, card: Callable[..., Path]) -> None:
    card("0000:5e:00.0", T4)
    card("0000:3b:00.0", V100)
    card("0000:00:1f.0", "a143", vendor="8086")
    card("0000:af:00.0", "5020", vendor="10ee")
    assert library.nvmlInit_v2() == SUCCESS
    first, second = handles(library)
    assert [text(library.nvmlDeviceGetName, handle) for handle in (first, second)] == [
        "Tesla V100-PCIE-16GB",
        "Tesla T4",
    ]
    assert memory(library, first) == (SUCCESS, CATALOGUE["v100"].memory.bytes)
    major, minor = ctypes.c_int(), ctypes.c_int()
    assert library.nvmlDeviceGetCudaComputeCapability(second, ctypes.byref(major), ctypes.byref(minor)) == SUCCESS
    assert (major.value, minor.value) == CATALOGUE["t4"].compute_capability
    uuids = {text(library.nvmlDeviceGetUUID, handle) for handle in (first, second)}
    assert len(uuids) == 2
    again = ctypes.c_void_p()
    for number, uuid in enumerate(sorted(uuids)):
        assert library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(again)) == SUCCESS, number
        assert text(library.nvmlDeviceGetUUID, again) == uuid


@needs_compiler
def test_a_machine_without_cards_has_no_driver(library: ctypes.CDLL) -> None:
    assert library.nvmlInit_v2() == DRIVER_NOT_LOADED


@needs_compiler
def test_only_cards_that_can_be_cut_have_a_mig_mode(library: ctypes.CDLL, card: Callable[..., Path]) -> None:
    card("0000:3b:00.0", V100)
    card("0000:5e:00.0", A100)
    assert library.nvmlInit_v2() == SUCCESS
    now, following = ctypes.c_uint(9), ctypes.c_uint(9)
    results = [
        library.nvmlDeviceGetMigMode(handle, ctypes.byref(now), ctypes.byref(following)) for handle in handles(library)
    ]
    assert (results, now.value, following.value) == ([NOT_SUPPORTED, SUCCESS], 0, 0)


@needs_compiler
def test_short_buffers_are_refused(library: ctypes.CDLL, card: Callable[..., Path]) -> None:
    card("0000:3b:00.0", V100)
    assert library.nvmlInit_v2() == SUCCESS
    buffer = ctypes.create_string_buffer(b"unchanged")
    assert library.nvmlDeviceGetName(handles(library)[0], buffer, 8) == INSUFFICIENT_SIZE
    assert buffer.value == b"unchanged"
    assert library.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(ctypes.c_void_p())) == INVALID_ARGUMENT


@needs_compiler
def test_an_xid_is_reported_once_until_it_changes(library: ctypes.CDLL, card: Callable[..., Path]) -> None:
    quiet, broken = card("0000:3b:00.0", V100), card("0000:5e:00.0", V100)
    assert library.nvmlInit_v2() == SUCCESS
    events = ctypes.c_void_p()
    assert library.nvmlEventSetCreate(ctypes.byref(events)) == SUCCESS
    for handle in handles(library):
        assert library.nvmlDeviceRegisterEvents(handle, ctypes.c_ulonglong(XID_EVENT), events) == SUCCESS

    def wait() -> tuple[str, int] | None:
        event = Event()
        result = library.nvmlEventSetWait_v2(events, ctypes.byref(event), 0)
        if result == TIMEOUT:
            return None
        assert (result, event.type, event.gpu_instance) == (SUCCESS, XID_EVENT, 0xFFFFFFFF)
        return text(library.nvmlDeviceGetUUID, ctypes.c_void_p(event.device)), event.data

    uuid = text(library.nvmlDeviceGetUUID, handles(library)[1])
    assert wait() is None
    (broken / "xid").write_text("48\n")
    assert (wait(), wait()) == ((uuid, 48), None)
    (broken / "xid").unlink()
    assert wait() is None
    (broken / "xid").write_text("48\n")
    assert wait() == (uuid, 48)
    shutil.rmtree(quiet)
    assert (wait(), wait()) == ((text(library.nvmlDeviceGetUUID, handles(library)[0]), 79), None)
    assert library.nvmlEventSetFree(events) == SUCCESS


@needs_compiler
def test_a_card_that_vanishes_is_lost(library: ctypes.CDLL, card: Callable[..., Path]) -> None:
    directory = card("0000:3b:00.0", V100)
    assert library.nvmlInit_v2() == SUCCESS
    (handle,) = handles(library)
    uuid = text(library.nvmlDeviceGetUUID, handle)
    shutil.rmtree(directory)
    assert memory(library, handle)[0] == GPU_IS_LOST
    assert text(library.nvmlDeviceGetUUID, handle) == uuid


@needs_compiler
@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm on PATH")
def test_functions_that_it_does_not_have_are_not_supported(tmp_path: Path) -> None:
    source, caller = tmp_path / "caller.c", tmp_path / "caller.so"
    source.write_text("int nvmlInit_v2(void); int nvmlDeviceGetFanSpeed(void);\n"
                      "int f(void) { return nvmlInit_v2() + nvmlDeviceGetFanSpeed(); }\n")  # fmt: skip
    subprocess.run(["cc", "-fPIC", "-shared", "-o", caller, source], check=True)
    assert nvml.unsupported([caller]) == ["nvmlDeviceGetFanSpeed"]
    assert ctypes.CDLL(str(nvml.build(CATALOGUE.values(), [caller], tmp_path))).nvmlDeviceGetFanSpeed() == NOT_SUPPORTED


def test_without_a_compiler_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    with pytest.raises(RuntimeError, match="cc is not on this machine: apt-get install gcc"):
        nvml.build(CATALOGUE.values(), [], tmp_path)
