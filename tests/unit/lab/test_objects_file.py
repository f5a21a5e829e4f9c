"""neutron's server of remote calls forks while the thread that writes the objects is at work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from strata.site.paths import REPOSITORY

SOURCE = REPOSITORY / "lab/openstack/src/strata_openstack_lab/objects.py"

SCRIPT = """
import importlib.util, os, sys, threading, time, types

# neutron is in the controller's environment only; nothing of it is used here
for name in ("neutron_lib", "neutron_lib.constants", "neutron_lib.context", "neutron_lib.plugins",
             "neutron_lib.plugins.constants", "neutron_lib.plugins.directory", "oslo_log", "oslo_log.log"):
    sys.modules[name] = types.ModuleType(name)
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, sys.modules[name])
constants = sys.modules["neutron_lib.constants"]
constants.DEVICE_OWNER_ROUTER_INTF = constants.DEVICE_OWNER_ROUTER_GW = constants.DEVICE_OWNER_FLOATINGIP = ""
sys.modules["oslo_log.log"].getLogger = lambda _: None
spec = importlib.util.spec_from_file_location("objects", sys.argv[1])
objects = importlib.util.module_from_spec(spec)
spec.loader.exec_module(objects)

lock, begun = threading.Lock(), threading.Event()

def collect():
    with lock:  # as those of neutron's database connections
        begun.set()
        time.sleep(0.5)
    return {}

objects.collect, objects.report = collect, lambda: None
file = objects.ObjectsFile(objects.Path(sys.argv[2]))
file.touch()
assert begun.wait(60)
child = os.fork()
if child == 0:
    os._exit(0 if lock.acquire(timeout=30) else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print("free" if status == 0 else "held for ever")
"""


def test_a_forked_worker_inherits_no_lock_that_no_one_will_release(tmp_path: Path) -> None:
    """Else the first write of the worker hangs, and no instance is reachable any more."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(SOURCE), str(tmp_path / "objects.json")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.strip() == "free", done.stdout + done.stderr
