"""A workflow of four steps: data by S3, batch jobs, a training with a card, and a plot. docs/stories.md shows it."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from strata.catalogue.issuer import Issuer
from strata.catalogue.needs.bucket import ACCESS_KEY, SECRET_KEY
from strata.catalogue.site_services import s3_endpoint
from strata.models.platform import Tenant
from strata.site.context import SiteContext
from strata.site.paths import REPOSITORY
from strata_bench.services import service_python
from strata_bench.waiting import eventually
from strata_services.accounting.service import SERVICE as ACCOUNTING
from strata_services.htcondor.service import SERVICE as HTCONDOR
from strata_services.jupyterhub.kernel import Server
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.jupyterhub.user import User, new_user
from strata_services.object_storage.client import request as s3_request
from strata_services.object_storage.service import SERVICE as OBJECT_STORAGE

from .commands import accounted

pytestmark = pytest.mark.nightly

EXAMPLE = REPOSITORY / "examples" / "segmentation"
NAME, FOLDER = "segmentation-ada", "segmentation"
RUN = """
import base64, json, os, pathlib, shutil, sys, time
home = pathlib.Path.home() / "segmentation"
shutil.rmtree(home, ignore_errors=True)
home.mkdir()
for name, text in {files!r}.items():
    (home / name).write_text(text)
    (home / name).chmod(0o755)
os.chdir(home)
sys.path.insert(0, str(home))
token = pathlib.Path(os.environ["_CONDOR_SEC_TOKEN_DIRECTORY"], "token")
while not token.exists():
    time.sleep(0.2)
import workflow
result = workflow.run(pathlib.Path("/shared", {tenant!r}, {folder!r}), cards={cards})
png = base64.b64encode(pathlib.Path("segmentation.png").read_bytes()).decode()
os.chdir(pathlib.Path.home())
shutil.rmtree(home)
print("RESULT" + json.dumps({{"found": result, "png": png}}))
"""


@pytest.fixture
def ada(context: SiteContext, own_issuer: Issuer, kubectl: Callable[..., str]) -> Iterator[tuple[User, Tenant]]:
    """A member of the first tenant who is logged in."""
    site = context.site
    for service in (ACCOUNTING, HTCONDOR, JUPYTERHUB, OBJECT_STORAGE):
        if service.of(site) is None:
            pytest.skip(f"site {site.name} has no platform.services.{service.key}")
    if not site.platform.tenants or own_issuer.users is None:
        pytest.skip(f"site {site.name} has no tenants, or users of another issuer")
    tenant = site.platform.tenants[0]
    with new_user(context, kubectl, NAME, tenant.name) as (user, password):
        user.log_in(own_issuer, password)
        yield user, tenant


@pytest.fixture
def days(
    context: SiteContext, kubectl: Callable[..., str], ada: tuple[User, Tenant], tmp_path: Path
) -> Iterator[list[str]]:
    """Made-up days, put into the tenant's bucket from outside."""
    user, tenant = ada
    endpoint = s3_endpoint(context.site)
    assert endpoint is not None
    secret = kubectl("get", "secret", "bucket-secrets", f"--namespace={tenant.name}", "--output=json")
    key = {name: base64.b64decode(json.loads(secret)["data"][name]).decode() for name in (ACCESS_KEY, SECRET_KEY)}
    command = [service_python("jupyterhub/images/notebook"), EXAMPLE / "made_up.py", tmp_path]
    subprocess.run(command, check=True, timeout=300)
    files = sorted(tmp_path.glob("day-*.npz"))
    paths = {file.stem: f"{tenant.name}/{FOLDER}/{file.name}" for file in files}
    try:
        for file in files:
            sent = s3_request(user.http, endpoint, key, "PUT", paths[file.stem], file.read_bytes())
            assert sent.status_code == 200, sent.text
        yield list(paths)
    finally:
        for path in paths.values():
            s3_request(user.http, endpoint, key, "DELETE", path)


def test_segmentation_workflow(context: SiteContext, ada: tuple[User, Tenant], days: list[str]) -> None:
    """Each day is prepared and searched by one job that ends once; the plot is a picture; accounting has the steps."""
    user, tenant = ada
    pool, notebooks = HTCONDOR.of(context.site), JUPYTERHUB.of(context.site)
    assert pool is not None
    assert notebooks is not None
    cards = int(pool.accelerator is not None and tenant.quota.accelerators.get(pool.accelerator, 0) > 0)
    # accounting is asked by the minute, in which an earlier run may have ended
    begin = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    user.request_server(next(p.name for p in notebooks.profiles if not p.accelerators and not p.restricted))
    user.wait_for_server(notebooks.start_seconds)
    time.sleep(max(0.0, (begin - datetime.now(UTC)).total_seconds()))
    files = {file.name: file.read_text() for file in EXAMPLE.glob("*.py")}
    code = RUN.format(files=files, tenant=tenant.name, folder=FOLDER, cards=cards)
    host = user.hub.removeprefix("https://").rstrip("/")
    printed = Server(user.http, host, user.name, user.token()).run(context, code)
    result = json.loads(printed.rpartition("RESULT")[2])
    assert result["found"] == dict.fromkeys(days, 3)
    picture = base64.b64decode(result["png"])
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000, "more than an empty figure"
    eventually(lambda: has_steps(accounted(context, begin), tenant.name, len(days), cards), 240, "accounting has them")


def has_steps(answer: dict[str, Any], tenant: str, days: int, cards: int) -> bool:
    """Whether the three steps are in accounting; fails where their numbers are others."""
    steps = {row["batch"]: row for row in answer["batches"] if (row["tenant"], row["username"]) == (tenant, NAME)}
    if set(steps) != {"prepare", "train", "infer"}:
        return False
    assert {name: row["tasks"] for name, row in steps.items()} == {"prepare": days, "train": 1, "infer": days}
    assert {name: row["cards_at_once"] for name, row in steps.items()} == {"prepare": 0, "train": cards, "infer": 0}
    assert steps["train"]["cpus_at_once"] == 1
    # labelled days' features, and all days' with the model
    assert 0 < steps["train"]["received_gib"] < steps["infer"]["received_gib"]
    begins = [datetime.fromisoformat(steps[name]["starts"]) for name in ("prepare", "train", "infer")]
    assert begins == sorted(begins)
    print(json.dumps(steps, indent=1))
    return True
