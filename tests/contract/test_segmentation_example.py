"""The steps of examples/segmentation with the packages of the notebook's image, without a pool."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from strata.site.paths import REPOSITORY
from strata_bench.services import service_python

EXAMPLE = REPOSITORY / "examples" / "segmentation"
JUDGE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import made_up, numpy as np
random, results = np.random.default_rng(20_01), []
for index in range(int(sys.argv[2])):
    truth = made_up.day(random)[1]
    objects = np.load(f"day-{index:02}.objects.npz")["objects"]
    both, either = ((objects > 0) & truth).sum(), ((objects > 0) | truth).sum()
    results.append([int(objects.max()), float(both / either)])
print(json.dumps(results))
"""


def test_the_steps_find_the_plumes(tmp_path: Path) -> None:
    """On a day that the training has not seen, too."""
    python = str(service_python("jupyterhub/images/notebook"))

    def run(*arguments: str) -> str:
        command = [python, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(str(EXAMPLE / "made_up.py"), ".")
    days = sorted(file.stem for file in tmp_path.glob("day-*.npz"))[:3]
    for day in days:
        run(str(EXAMPLE / "prepare.py"), f"{day}.npz")
    run(str(EXAMPLE / "train.py"), *(f"{day}.features.npz" for day in days[:2]))
    for day in days:
        run(str(EXAMPLE / "infer.py"), f"{day}.features.npz")
    results = json.loads(run("-c", JUDGE, str(EXAMPLE), str(len(days))))
    assert [objects for objects, _ in results] == [3] * len(days)
    assert min(overlap for _, overlap in results) == pytest.approx(1, abs=0.15)
