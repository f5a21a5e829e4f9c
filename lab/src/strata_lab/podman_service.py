"""The host's podman API, through which nova-compute in the controller makes instances."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from strata.access.podman import RUNTIME
from strata.errors import UserError
from strata.processes import unmarked_environment
from strata.retry import wait_until
from strata.site.paths import SitePaths

START_SECONDS = 15.0
STOP_SECONDS = 10.0

SUPERVISOR_NAME = "strata-podman-service"
# starts podman's service again when it ends; a stop ends both by the process group
_SUPERVISOR = 'while :; do podman --runtime "$1" system service --time 0 "unix://$2"; sleep 1; done'


def runtime_directory(site: str) -> Path:
    """Directory of the socket; the controller sees it as /run/strata."""
    return Path("/run/strata") / site


def make_runtime_directory(site: str) -> Path:
    """Makes it; others than root may pass through to what is theirs, and read nothing."""
    directory = runtime_directory(site)
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o711)
    return directory


def socket_path(site: str) -> Path:
    """The service's socket on the host."""
    return runtime_directory(site) / "podman.sock"


def _pid_file(paths: SitePaths) -> Path:
    return paths.root / "podman-service.pid"


def running_pid(paths: SitePaths) -> int | None:
    """Process id of the supervisor; None where it does not run."""
    try:
        pid = int(_pid_file(paths).read_text())
    except (FileNotFoundError, ValueError):
        pid = 0
    if pid and _is_supervisor(pid, paths):
        return pid
    # a run was killed before it wrote the number down
    numbers = (int(process.name) for process in Path("/proc").glob("[0-9]*"))
    return next((number for number in numbers if _is_supervisor(number, paths)), None)


def _is_supervisor(pid: int, paths: SitePaths) -> bool:
    """Whether this process is it; a number may belong to another process by now."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return SUPERVISOR_NAME.encode() in command and str(socket_path(paths.site)).encode() in command


def answers(site: str) -> bool:
    """Whether the socket accepts connections."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(2)
        try:
            client.connect(str(socket_path(site)))
        except OSError:
            return False
    return True


def start(paths: SitePaths) -> bool:
    """Starts the service where it does not run; returns whether it did.

    Raises:
        UserError: it does not respond; names its log.
    """
    if running_pid(paths) is not None and answers(paths.site):
        return False
    # not the directory: a controller that runs has mounted this very one
    _end(paths)
    make_runtime_directory(paths.site)
    paths.create()
    log = paths.logs / "podman-service.log"
    with log.open("a") as stream:
        process = subprocess.Popen(
            ["sh", "-c", _SUPERVISOR, SUPERVISOR_NAME, RUNTIME, str(socket_path(paths.site))],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd="/",
            env=unmarked_environment(),
            start_new_session=True,
        )
    _pid_file(paths).write_text(f"{process.pid}\n")
    if wait_until(lambda: None if answers(paths.site) else "podman", START_SECONDS, pause=0.05):
        raise UserError(f"podman's service does not respond on {socket_path(paths.site)}", fix=f"see {log}")
    return True


def stop(paths: SitePaths) -> bool:
    """Ends the service and removes the directory; returns whether the service ran."""
    ran = _end(paths)
    directory = runtime_directory(paths.site)
    shutil.rmtree(directory, ignore_errors=True)
    # the last site's socket takes the common directory with it
    if directory.parent.is_dir() and not any(directory.parent.iterdir()):
        directory.parent.rmdir()
    return ran


def _end(paths: SitePaths) -> bool:
    """Ends supervisor and service by their process group; returns whether they ran."""
    pid = running_pid(paths)
    if pid is not None:
        _signal_group(pid, signal.SIGTERM)
        end = time.monotonic() + STOP_SECONDS
        while running_pid(paths) is not None and time.monotonic() < end:
            _reap(pid)
            time.sleep(0.05)
        if running_pid(paths) is not None:
            _signal_group(pid, signal.SIGKILL)
            _reap(pid)
    _pid_file(paths).unlink(missing_ok=True)
    return pid is not None


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _reap(pid: int) -> None:
    """Takes the exit status where the process is a child of this one."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
