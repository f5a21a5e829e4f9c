"""The workflow, for a notebook: `workflow.run(Path("/shared/research/segmentation"))`; jobs do all but the plot."""

import time
from collections.abc import Sequence
from pathlib import Path

import htcondor2
import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).resolve().parent
IDLE, RUNNING, COMPLETED, HELD = 1, 2, 4, 5


class Failed(Exception):
    """A job is held, or its program failed; the message names it and gives the reason."""


def batch(
    name: str, program: str, files: Sequence[Path], results: str, also: Sequence[Path] = (), **description: str
) -> None:
    """Runs a job for each file, waits for all, and fetches what they wrote to the current directory.

    Args:
        name: of the batch, for `condor_q` and accounting.
        program: beside this file; its argument is the file's name, unless the description has others.
        files: one for each job.
        results: what a job writes; `$(day)` is the file's name up to the first dot.
        also: files that each job gets.
        description: further lines of it, as request_gpus="1".

    Raises:
        Failed: a job did not succeed.
    """
    schedd = htcondor2.Schedd()
    job = htcondor2.Submit(
        {
            "batch_name": name,
            "executable": str(HERE / program),
            "arguments": "$(name)",
            "should_transfer_files": "YES",
            "transfer_input_files": ", ".join(["$(file)", *map(str, also)]),
            "transfer_output_files": results,
            "output": f"{name}.$(day).out",
            "error": f"{name}.$(day).err",
            "request_cpus": "1",
            "request_memory": "256MB",
            "request_disk": "64MB",
            **description,
        }
    )
    items = [{"file": str(file), "name": file.name, "day": file.name.partition(".")[0]} for file in files]
    submitted = schedd.submit(job, itemdata=iter(items), spool=True)
    schedd.spool(submitted)
    these = f"ClusterId == {submitted.cluster()}"
    while True:
        ads = schedd.query(these, ["JobStatus", "HoldReasonCode", "HoldReason", "ExitCode"])
        states = [ad["JobStatus"] for ad in ads]
        print(f"{name}: {states.count(COMPLETED)} of {len(items)} jobs done, {states.count(RUNNING)} run", flush=True)
        for ad in ads:
            if ad["JobStatus"] == HELD and ad.get("HoldReasonCode") != 16:  # 16: its files are on their way
                raise Failed(f"{name}: {ad.get('HoldReason')}")
        if states.count(COMPLETED) == len(items):
            break
        time.sleep(2)
    schedd.retrieve(these)
    if any(ad["ExitCode"] for ad in ads):
        errors = [text for item in items if (text := Path(f"{name}.{item['day']}.err").read_text())]
        raise Failed(f"{name}: {''.join(errors)[-2000:]}")


def plot(volume: np.ndarray, objects: np.ndarray, file: Path) -> None:
    """Draws the transport with the outlines of the objects, at three times.

    Args:
        volume: (times, latitudes, longitudes).
        objects: of the same shape; 0 for none.
        file: PNG to write.
    """
    times = np.linspace(0, len(volume) - 1, 3).astype(int)
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    for axis, at in zip(axes, times, strict=True):
        axis.imshow(volume[at], cmap="Blues", origin="lower")
        axis.contour(objects[at] > 0, levels=[0.5], colors="crimson")
        axis.set(title=f"hour {3 * at}", xticks=[], yticks=[])
    figure.savefig(file, dpi=100)
    plt.close(figure)


def run(days: Path, cards: int = 0) -> dict[str, int]:
    """Runs all steps in the current directory.

    Args:
        days: folder of day-*.npz with `volume`, some with `labels`.
        cards: for the training.

    Returns:
        Number of objects by day.

    Raises:
        Failed: a job did not succeed.
    """
    files = sorted(days.glob("day-*.npz"))
    batch("prepare", "prepare.py", files, "$(day).features.npz")
    prepared = [Path(f"{file.stem}.features.npz").resolve() for file in files]
    known = [path for file, path in zip(files, prepared, strict=True) if "labels" in np.load(file)]
    more = {"arguments": " ".join(file.name for file in known)} | ({"request_gpus": str(cards)} if cards else {})
    batch("train", "train.py", known[:1], "model.npz", also=known[1:], **more)
    batch("infer", "infer.py", prepared, "$(day).objects.npz", also=[Path("model.npz").resolve()])
    counts = {file.stem: int(np.load(f"{file.stem}.objects.npz")["objects"].max()) for file in files}
    plot(np.load(files[-1])["volume"], np.load(f"{files[-1].stem}.objects.npz")["objects"], Path("segmentation.png"))
    return counts
