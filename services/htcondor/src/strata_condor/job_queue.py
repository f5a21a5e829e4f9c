"""A schedd's job queue log: entries that make, change and remove ads, which HTCondor replays when it starts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

NEW_AD, DESTROY_AD, SET, DELETE, BEGIN, END, SEQUENCE = "101", "102", "103", "104", "105", "106", "107"
HEADER = "0.0"
"""Key of the ad with the next cluster's number."""
TENANT = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
FILES = frozenset(
    "Iwd Cmd In Out Err UserLog TransferInput TransferOutput TransferOutputRemaps SpooledOutputFiles X509UserProxy "
    "DAGManNodesLog".casefold().split()
)
"""Attributes with paths in the spool, as the access point protects them."""


@dataclass
class Ad:
    """An ad as its log has it.

    Args:
        kind: types of the ad.
        attributes: name to expression.
    """

    kind: str
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def tenant(self) -> str | None:
        """Of the owner."""
        return tenant_of(self.attributes.get("Owner", "").strip('"'))


@dataclass
class JobQueue:
    """The ads of a queue.

    Args:
        ads: by key: `0.0` the header, `0.2` a user, `01.-1` what the jobs of cluster 1 have in common, `1.0` a job.
    """

    ads: dict[str, Ad] = field(default_factory=dict)

    @classmethod
    def read(cls, lines: Iterable[str]) -> JobQueue:
        """Replays a log; a transaction that did not end counts for nothing.

        Raises:
            ValueError: an entry is of another version.
        """
        queue, transaction = cls(), None
        for number, line in enumerate(lines, 1):
            code, _, rest = line.strip("\r\n").partition(" ")
            if code == BEGIN:
                transaction = []
            elif code == END:
                for entry in transaction or ():
                    queue._apply(*entry)
                transaction = None
            elif code in (NEW_AD, DESTROY_AD, SET, DELETE):
                if transaction is None:
                    queue._apply(code, rest)
                else:
                    transaction.append((code, rest))
            elif code != SEQUENCE:
                raise ValueError(f"job queue log, line {number}: unknown entry {code!r}")
        return queue

    def _apply(self, code: str, rest: str) -> None:
        key, _, rest = rest.partition(" ")
        if code == NEW_AD:
            self.ads[key] = Ad(rest)
        elif code == DESTROY_AD:
            self.ads.pop(key, None)
        elif key in self.ads:
            name, _, value = rest.partition(" ")
            if code == SET:
                self.ads[key].attributes[name] = value
            else:
                self.ads[key].attributes.pop(name, None)

    def clusters(self) -> set[int]:
        """Numbers of the clusters that have jobs."""
        return {_cluster(key) for key in self.ads} - {0}

    def by_tenant(self) -> dict[str, JobQueue]:
        """The queue of each tenant that has jobs or users in it; all go on with the next cluster's number."""
        of_cluster: dict[int, str] = {}
        for key, ad in self.ads.items():
            if _cluster(key) and ad.tenant:
                of_cluster.setdefault(_cluster(key), ad.tenant)
        queues: dict[str, JobQueue] = {}
        for key, ad in self.ads.items():
            tenant = of_cluster.get(_cluster(key)) if _cluster(key) else ad.tenant
            if tenant is not None:
                empty = JobQueue({HEADER: self.ads[HEADER]} if HEADER in self.ads else {})
                queues.setdefault(tenant, empty).ads[key] = ad
        return queues

    def moved(self, old: str, new: str) -> JobQueue:
        """With the paths of job files in another spool."""
        folder = re.compile(rf"{re.escape(old)}/(?=[0-9]+/)")
        ads = {}
        for key, ad in self.ads.items():
            changed = {n: folder.sub(f"{new}/", v) for n, v in ad.attributes.items() if n.casefold() in FILES}
            ads[key] = Ad(ad.kind, ad.attributes | changed)
        return JobQueue(ads)

    def lines(self) -> Iterator[str]:
        """The shortest log with these ads."""
        yield f"{SEQUENCE} 1 CreationTimestamp 0"
        for key, ad in self.ads.items():
            yield f"{NEW_AD} {key} {ad.kind}"
            for name, value in ad.attributes.items():
                yield f"{SET} {key} {name} {value}"


def _cluster(key: str) -> int:
    return int(key.partition(".")[0])


def tenant_of(owner: str) -> str | None:
    """The tenant of TENANT.USER; None for other users, who have no jobs."""
    tenant, dot, _ = owner.partition(".")
    return tenant if dot and TENANT.fullmatch(tenant) else None
