"""Command line of `scripts/conformance`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from strata.access.site_environment import site_environment
from strata.cli.main import run
from strata.locks import file_lock
from strata.site.context import SiteContext
from strata.site_file.inventories import find_site
from strata.toolchain import tools_environment
from strata_bench.terminal import Lines, ending_in_order
from strata_conformance import cluster, expected
from strata_conformance.build import TESTS, ensure_tests
from strata_conformance.images import push_test_images
from strata_conformance.results import ResultFile, Verdict, judge, write_junit
from strata_conformance.runner import Runner
from strata_conformance.specs import Selection, Suite, list_specs, select

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)


@app.command()
def conformance(
    site: Annotated[str, typer.Option("--site", help="Name of the running site, or path of its file.")] = "lab",
    suite: Annotated[Suite, typer.Option("--suite", help="Specs to run.")] = Suite.CONFORMANCE,
    focus: Annotated[
        str | None, typer.Option("--focus", metavar="REGEX", help="Run only specs whose names match.")
    ] = None,
    serial: Annotated[
        bool, typer.Option("--serial", help="Also run the serial and disruptive specs, one at a time.")
    ] = False,
    processes: Annotated[int, typer.Option("--processes", "-n", min=1, help="Number of parallel processes.")] = 4,
    fresh: Annotated[bool, typer.Option("--fresh", help="Repeat specs that passed on this cluster.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the specs; needs no cluster.")] = False,
) -> None:
    """Run Kubernetes' own end-to-end tests on a site's cluster and compare the failures with the expected ones.

    The first run builds the tests and their images. The same command resumes an interrupted run and repeats failed
    specs, but not those that passed on this cluster. Exits 1 if the failures differ from the expected ones.
    """
    lines = Lines()
    with ending_in_order():
        try:
            context = SiteContext.load(find_site(site))
            tests = ensure_tests(lines)
            listed = expected.load()
            names = list_specs(tests, tools_environment())
            expected.check_names(listed, names)
            selection = select(names, suite, focus, serial, listed)
            if dry_run:
                lines.stop()
                _list(selection)
                return
            folder = context.paths.root / "conformance"
            verdict = _run(context, tests, selection, folder, processes, fresh, lines)
        finally:
            lines.stop()
    _show(verdict, selection, folder)
    if not verdict.as_expected:
        sys.exit(1)


def _run(
    context: SiteContext,
    tests: Path,
    selection: Selection,
    folder: Path,
    processes: int,
    fresh: bool,
    lines: Lines,
) -> Verdict:
    listed = expected.load()
    taints = cluster.taints(context)
    run = f"{cluster.identity(context)} {tests.name}"
    folder.mkdir(exist_ok=True, mode=0o700)
    with file_lock(folder / "lock", lines, "another run of the tests on this site"):
        results = ResultFile(folder / "results.jsonl", run, fresh=fresh)
        registries = folder / "registries.json"
        environment = dict(os.environ) | site_environment(context) | {"KUBE_TEST_REPO_LIST": str(registries)}
        push_test_images(context, tests, environment, registries, lines)
        cluster.delete_namespaces(context, lines)  # of a run that was killed
        command = [
            str(tests / TESTS),
            "--provider=skeleton",
            f"--kubeconfig={context.paths.kubeconfig}",
            f"--non-blocking-taints={','.join(taints)}",
            "--ginkgo.no-color",
        ]
        logs = folder / "logs"
        logs.mkdir(exist_ok=True)
        for old in logs.iterdir():
            old.unlink()
        runner = Runner(command, environment, results, logs, lines)
        try:
            parallel, alone = results.left(selection.parallel), results.left(selection.alone)
            runner.run(parallel, processes, later=len(alone))
            # a spec may have failed for want of processors; what is expected to fail is not tried again
            failed = [spec for spec in results.left(parallel) if spec not in listed]
            runner.run([*failed, *alone], 1)
        finally:
            cluster.delete_namespaces(context, lines)
            write_junit(folder / "junit.xml", selection.specs, results.results, listed)
        return judge(selection.specs, results.results, listed)


def _list(selection: Selection) -> None:
    console = Console()
    for spec in selection.specs:
        console.print(spec, markup=False, highlight=False, soft_wrap=True)
    counts = f"{len(selection.parallel)} specs in parallel, {len(selection.alone)} one at a time"
    console.print(f"{counts}, {len(selection.left_out)} expected failures left out", highlight=False)


def _show(verdict: Verdict, selection: Selection, folder: Path) -> None:
    console = Console(soft_wrap=True)
    texts = {
        "failed": "failed",
        "repaired": f"passed, but is expected to fail; remove it from {expected.FILE}",
        "missing": "has no result",
    }
    for field, text in texts.items():
        for spec in getattr(verdict, field):
            console.print(f"✗ {spec}: {text}", markup=False, highlight=False)
    console.print(
        f"{'✓' if verdict.as_expected else '✗'} {len(verdict.passed)} of {len(selection.specs)} specs passed, "
        f"{len(verdict.failed)} failed, {len(verdict.expected)} failed as expected, {len(verdict.skipped)} do not "
        f"apply, {len(selection.left_out)} expected failures were not run",
        highlight=False,
    )
    console.print(f"report: {folder / 'junit.xml'}, logs of failures: {folder / 'logs'}", highlight=False)


def main() -> None:
    """Entry point; errors as of strata."""
    run(app)


if __name__ == "__main__":
    main()
