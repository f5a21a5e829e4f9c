"""Work of one user that goes on while parts of the site are killed, and what of it must not be lost."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import requests

from strata.access.https import site_session
from strata.catalogue.needs.bucket import S3Endpoint, bucket_key
from strata.site.context import SiteContext
from strata_bench.waiting import eventually
from strata_services.htcondor.queue import COMPLETED, RUNNING, Queue
from strata_services.jupyterhub.kernel import Server
from strata_services.object_storage.client import request

from .batch import jobs

if TYPE_CHECKING:
    from testinfra.host import Host

HEALED_SECONDS = 600.0
"""In which all works again on a machine with two cores where many pods start."""
COUNT = 20
"""Seconds that a job counts."""
# the shell reads the numbers: `$((…))` would be a macro of condor_submit
COUNTING = f"arguments = \"-c 'seq 1 {COUNT} | while read n; do echo $n; sleep 1; done'\"\noutput = out"
WRITE = """
import os, pathlib, threading, time
nonce, written, failure = {nonce!r}, 0, None
file = pathlib.Path.home() / {name!r}
def write():
    global written, failure
    try:
        with open(file, "w") as stream:
            while True:
                print(written, file=stream, flush=True)
                os.fsync(stream)
                written += 1
                time.sleep(0.1)
    except OSError as error:
        failure = repr(error)
threading.Thread(target=write, daemon=True).start()
"""
LOOK = "print(nonce, written, failure)"
OBJECT_BYTES = 100_000


@dataclass
class Objects:
    """Puts an object every second; one that was not acknowledged is put again, as S3 clients do.

    Args:
        context: the site.
        storage: its endpoint.
        bucket: that the objects are in.
        prefix: of their keys.
    """

    context: SiteContext
    storage: S3Endpoint
    bucket: str
    prefix: str
    stored: dict[str, bytes] = field(default_factory=dict)
    """Acknowledged."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def send(self, http: requests.Session, method: str, key: str, data: bytes = b"") -> requests.Response:
        """A request with the bucket's key."""
        own = bucket_key(self.context.secrets, self.storage, self.bucket)
        return request(http, self.storage, own, method, f"{self.bucket}/{key}", data)

    def put_all(self) -> None:
        """Until `end`."""
        with site_session(self.context) as http:
            while not self._ended.is_set():
                key = f"{self.prefix}-{len(self.stored)}"
                data = key.encode() * (OBJECT_BYTES // len(key))
                with contextlib.suppress(requests.RequestException):
                    if self.send(http, "PUT", key, data).status_code == 200:
                        self.stored[key] = data
                self._ended.wait(1)

    @contextlib.contextmanager
    def being_put(self, http: requests.Session) -> Iterator[None]:
        """Meanwhile objects are put; they are deleted afterwards."""
        thread = threading.Thread(target=self.put_all, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            for key in self.stored:
                self.send(http, "DELETE", key)


@dataclass
class Load:
    """A notebook that writes into its home, jobs that count, and objects.

    Args:
        context: the site.
        http: finds the site's names.
        server: of the user.
        home: on the NFS server.
        nfs_server: its host.
        queue: of the pool.
        member: `TENANT.USER`, whose jobs they are.
        objects: being put.
    """

    context: SiteContext
    http: requests.Session
    server: Server
    home: Path
    nfs_server: Host
    queue: Queue
    member: str
    objects: Objects
    kernel: str = ""
    nonce: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    submitted: list[str] = field(default_factory=list)
    """Clusters of jobs, of one job each, that have not been fetched."""
    fetched: int = 0
    """Jobs that ended, with their whole output."""

    @property
    def name(self) -> str:
        """Of the file that the notebook writes."""
        return f"strata-fault-{self.nonce}.txt"

    def begin(self) -> None:
        """The notebook begins to write."""
        self.kernel = self.server.start_kernel()
        self.server.execute(self.context, self.kernel, WRITE.format(nonce=self.nonce, name=self.name))

    def submit(self, count: int) -> None:
        """Submits jobs, and returns when one of them runs."""
        new = [self.queue.submit(self.member, jobs(64, 1, COUNTING)) for _ in range(count)]
        self.submitted += new
        eventually(
            lambda: any(self.queue.jobs(job)[0]["JobStatus"] in (RUNNING, COMPLETED) for job in new),
            HEALED_SECONDS,
            "a job runs",
        )

    def written(self) -> int:
        """Lines that the server acknowledged, as the kernel that was started first counts them."""
        nonce, written, failure = self.server.execute(self.context, self.kernel, LOOK).split(maxsplit=2)
        assert (nonce, failure.strip()) == (self.nonce, "None")
        return int(written)

    def file_is_whole(self, acknowledged: int) -> bool:
        """Fails where the file on the server has not each line once, in order, at least the acknowledged ones."""
        lines = str(self.nfs_server.check_output(f"cat '{self.home / self.name}'")).split("\n")
        lines = [line for line in lines if line]
        assert lines == [str(n) for n in range(len(lines))]
        assert len(lines) >= acknowledged, acknowledged
        return True

    def nothing_lost(self) -> None:
        """The same kernel writes on, its file is whole, each job ended once, each object is there."""
        written = eventually_value(self.written, "the notebook's kernel answers")
        eventually(lambda: self.written() > written, HEALED_SECONDS, "the notebook writes on")
        self.nothing_stored_is_lost(written)

    def nothing_stored_is_lost(self, written: int) -> None:
        """Likewise, also of a notebook that ended with its node.

        Args:
            written: lines that were acknowledged.
        """
        assert self.file_is_whole(written)
        eventually(self.all_ended, HEALED_SECONDS, f"the jobs {', '.join(self.submitted)} have ended")
        for cluster in self.submitted:
            self.fetch(cluster)
        self.submitted.clear()
        before = len(self.objects.stored)
        eventually(lambda: len(self.objects.stored) > before, HEALED_SECONDS, "objects are stored again")
        for key, data in dict(self.objects.stored).items():
            assert self.objects.send(self.http, "GET", key).content == data, key

    def all_ended(self) -> bool:
        """Fails where a job has another status; each must be there, and have ended once."""
        for cluster in self.submitted:
            (job,) = self.queue.jobs(cluster)
            assert job["JobStatus"] == COMPLETED, {name: job.get(name) for name in ("JobStatus", "HoldReason")}
            assert (job["ExitCode"], job.get("NumJobCompletions", 1)) == (0, 1)
        return True

    def fetch(self, cluster: str) -> None:
        """Fetches the output, which must be whole."""
        run, user = self.queue.run, self.member
        run("condor_transfer_data", cluster, user=user)
        assert run("cat", "out", user=user).split() == [str(n + 1) for n in range(COUNT)]
        self.queue.remove(cluster, user=user)
        self.fetched += 1


def eventually_value(read: Callable[[], int], text: str) -> int:
    """What is read as soon as it can be read."""
    values: list[int] = []

    def done() -> bool:
        values.append(read())
        return True

    eventually(done, HEALED_SECONDS, text)
    return values[-1]
