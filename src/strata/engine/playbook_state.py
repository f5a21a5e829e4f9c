"""Whether a playbook would change anything: the same inputs as at its last success, and nothing has drifted since.

Running a playbook to find out takes ten seconds and more; asking its hosts takes one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from strata.access.kubectl import Unanswered
from strata.catalogue.published import published
from strata.catalogue.site_needs import databases
from strata.drift import handlers
from strata.drift.baseline import TRUSTED_SECONDS, directory
from strata.drift.cluster import cluster_drift
from strata.drift.hosts import playbook_hosts, settled_hosts_drift
from strata.site.context import SiteContext
from strata.site.outputs import write_private
from strata.site.paths import REPOSITORY

_CODE = ("src/strata/site/secrets", "versions.yaml", "ansible.cfg")
"""Sources of every playbook."""
_IGNORED = frozenset({"__pycache__", "checks", "molecule", "tests"})


def reason_to_run(context: SiteContext, playbook: str) -> str | None:
    """None if the playbook need not run, else the reason in a few words."""
    file = _file(context, playbook)
    if not file.exists():
        return "it has not succeeded yet"
    record: dict[str, Any] = json.loads(file.read_text())
    if time.time() - record["at"] > TRUSTED_SECONDS:
        return "its last success is more than a day old"
    if record["inputs"] != _inputs(context, playbook):
        return "site, versions, roles or instances are not those of its last success"
    now = _secrets(context)
    if any(now.get(name) != digest for name, digest in record["secrets"].items()):
        return "a secret has changed"
    if pending := handlers.load(context.paths, playbook):
        host, task = min(pending)
        return f"{host}: handlers of {task!r} have not run"
    try:
        drift = settled_hosts_drift(context, [context.playbooks[playbook]])
        if playbook == "cluster":
            drift += cluster_drift(context)
    except Unanswered as error:
        return str(error)
    if drift:
        more = f" and {len(drift) - 1} more" if len(drift) > 1 else ""
        first = drift[0]
        return f"{first.object}: {first.property} is {first.found}, desired {first.wanted}{more}"
    return None


def invalidate(context: SiteContext, playbook: str) -> None:
    """Before the playbook runs: from here on only its success counts."""
    _file(context, playbook).unlink(missing_ok=True)


def remember(context: SiteContext, playbook: str) -> None:
    """After its success."""
    record = {"at": time.time(), "inputs": _inputs(context, playbook), "secrets": _secrets(context)}
    file = _file(context, playbook)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(file, json.dumps(record, indent=1))


def summary(context: SiteContext, playbook: str) -> str:
    """For the line of a step that was not needed."""
    return f"{len(playbook_hosts(context, context.playbooks[playbook]))} hosts, skipped: no drift"


def _file(context: SiteContext, playbook: str) -> Path:
    return directory(context.paths, playbook) / ".succeeded"


def _inputs(context: SiteContext, playbook: str) -> str:
    """Digest of what leads to a playbook's tasks and variables, secrets excepted."""
    outputs = context.cloud_outputs
    needs = (databases(context.site), published(context.site))  # not services' code: no source of a playbook
    code = _code_digest(context.playbooks[playbook].sources)
    parts = [context.site.model_dump_json(), repr(needs), code, str(context.site_file)]
    if not context.playbooks[playbook].before_cloud:
        parts.append(outputs.model_dump_json() if outputs else "")
    if context.playbooks[playbook].pulls_images and (images := context.image_outputs):
        parts.append(images.model_dump_json())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _code_digest(sources: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for file in sorted(code_files((*sources, *_CODE))):
        digest.update(str(file.relative_to(REPOSITORY)).encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def code_files(sources: tuple[str, ...]) -> Iterator[Path]:
    """Files that a run of a playbook reads, of files and folders of the repository: no tests and no checks."""
    for name in sources:
        path = REPOSITORY / name
        if path.is_file():
            yield path
        else:
            yield from (f for f in path.rglob("*") if f.is_file() and not _IGNORED.intersection(f.parts))


def _secrets(context: SiteContext) -> dict[str, str]:
    """Fingerprint of each generated secret, and of what is trusted, which shows whether it changed and nothing else."""
    key = context.paths.passphrase_file.read_bytes()
    known = {**context.secrets.known(), "trusted authorities": context.secrets.ca}
    return {name: hmac.new(key, value.encode(), hashlib.sha256).hexdigest()[:32] for name, value in known.items()}
