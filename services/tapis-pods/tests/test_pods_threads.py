"""The reconciler's threads read what the API server sends at the same time, the first time too."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import yaml

from strata_bench.services import service_python

THREADS = """
import sys, threading
from pathlib import Path
from lightkube.core.decoders import decode_object, decode_status, decode_watch_event
from pods.cluster import Cluster, Pod

Cluster(Path(sys.argv[1]))
sys.setswitchinterval(1e-6)
together = threading.Barrier(4)

def read():
    together.wait()
    for line in sys.argv[2:]:
        decode_object(decode_watch_event(line.encode()).object, Pod)
    decode_status(b'{"kind": "Status", "code": 410, "details": {"causes": [{"reason": "Expired"}]}}')

threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("read")
"""


def test_threads_that_read_at_once_do_not_end_the_process(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    name = {"name": "a"}
    content = {
        "current-context": "a",
        "contexts": [name | {"context": {"cluster": "a", "user": "a"}}],
        "clusters": [name | {"cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [name | {"user": {"token": "none"}}],
    }
    kubeconfig.write_text(yaml.safe_dump(content))
    pod = {"metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "main"}]}}
    event = json.dumps({"type": "ADDED", "object": pod})
    command = [str(service_python("tapis-pods")), "-c", THREADS, str(kubeconfig), event]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr
