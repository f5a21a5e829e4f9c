"""What a run of a Pulumi program depends on: sources, site, outputs of the layers below, tools, environment.

tests/unit/engine/test_program_state.py runs both programs and compares the files that they open with these.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

from strata.errors import UserError
from strata.models.files import site_files
from strata.processes import MARK
from strata.site.context import SiteContext
from strata.site.outputs import CloudOutputs, ExistingObjects, ImageOutputs, Outputs
from strata.site.paths import REPOSITORY
from strata.stacks.pulumi import Program, Run, stack_settings_file
from strata.toolchain import charts, load_versions

SOURCES = ("ansible", "ansible.cfg", "helm", "lab", "services", "src", "uv.lock", "versions.yaml")
"""Of the repository, beside the program's own folder. Any file counts: a program may start to read it."""
_IGNORED = frozenset({"__pycache__", "molecule", "tests"})
"""Directories that no program reads, as it reads none that is hidden: tests and linters leave .venv and .ruff_cache."""
_VARIABLES = ("HELM_", "KUBE", "OS_", "PULUMI_", "STRATA_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Prefixes of the environment variables that the programs and their plugins read; proxies in lower case too."""
_TOOLS: Mapping[Program, tuple[str, ...]] = {
    "cloud": ("pulumi", "pulumi-language-python", "pulumi-resource-openstack"),
    "platform": ("pulumi", "pulumi-language-python", "pulumi-resource-kubernetes", "helm", "kubectl"),
}
_OUTPUTS: Mapping[Program, tuple[type[Outputs], ...]] = {
    "cloud": (ExistingObjects,),
    "platform": (CloudOutputs, ImageOutputs, ExistingObjects),
}
_ABSENT = "absent"


def given(run: Run) -> dict[str, str]:
    """Returns what a run reads, by name, each with a digest; taken before it starts.

    A secret is represented by a keyed digest, which reveals only whether it changed.
    """
    context, program = run.context, run.program
    inputs = {str(file.relative_to(REPOSITORY)): _content(file) for file in _sources(program)}
    inputs |= {_shown(file): _content(file) for file in _site_files(context, program)}
    inputs |= {f"tool {name}": _binary(name, run.environment["PATH"]) for name in _TOOLS[program]}
    plugins = Path(run.environment["PULUMI_HOME"]) / "plugins"
    inputs |= {f"plugin {file.relative_to(plugins)}": _version(file) for file in sorted(plugins.glob("*/*"))}
    inputs |= {"Python": f"{sys.version} {sys.prefix}", "Python packages": _packages()}
    key = context.paths.passphrase_file.read_bytes()
    inputs |= {
        f"environment variable {name}": _keyed(key, value)
        for name, value in run.environment.items()
        if name.upper().startswith(_VARIABLES) and name != MARK
    }
    return inputs


def secrets(context: SiteContext) -> dict[str, str]:
    """Returns the keyed digest of each secret of the site, generated or provided."""
    key = context.paths.passphrase_file.read_bytes()
    values = dict(context.secrets.known())
    for declaration in context.site.secrets:
        try:
            values[declaration.name] = context.secrets.get(declaration.name)
        except UserError:
            values[declaration.name] = ""  # the program fails if it needs it
    return {f"secret {name}": _keyed(key, value) for name, value in values.items()}


def written(run: Run) -> dict[str, str]:
    """Returns what a run itself writes, by name, each with a digest; taken after it."""
    contents = {"state of the stack": _content(run.state_file)}
    settings = stack_settings_file(run.program, run.site.name)
    contents[_shown(settings)] = _content(settings)
    if run.program == "cloud":
        contents[CloudOutputs.file_name] = _content(run.paths.outputs / CloudOutputs.file_name)
    return contents


def _sources(program: Program) -> Iterator[Path]:
    for name in (f"pulumi/{program}", *SOURCES):
        path = REPOSITORY / name
        yield from sorted(_files(path)) if path.is_dir() else (path,)


def _files(directory: Path) -> Iterator[Path]:
    """Files below a directory; settings of stacks, which runs write, are left out."""
    for entry in os.scandir(directory):
        if entry.name in _IGNORED or (entry.name.startswith("Pulumi.") and entry.name != "Pulumi.yaml"):
            continue
        if entry.is_dir():
            if not entry.name.startswith("."):
                yield from _files(Path(entry.path))
        elif entry.is_file():
            yield Path(entry.path)


def _site_files(context: SiteContext, program: Program) -> Iterator[Path]:
    paths = context.paths
    yield context.site_file
    yield from (context.site_file.parent / file for file in site_files(context.site))
    values = context.site_file.parent / "values"
    if values.is_dir():
        yield from sorted(_files(values))
    yield from (paths.outputs / outputs.file_name for outputs in _OUTPUTS[program])
    if program == "cloud":
        yield paths.ssh_key.with_suffix(".pub")
        if context.provider.clouds_file is not None:
            yield context.provider.clouds_file
        return
    yield from (paths.kubeconfig, paths.ca_file)
    for chart in charts.report():
        if chart.name in load_versions().charts and chart.path is not None and chart.source != "substitute":
            yield from sorted(_files(chart.path))


def _shown(file: Path) -> str:
    return str(file.relative_to(REPOSITORY)) if file.is_relative_to(REPOSITORY) else str(file)


def _content(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except FileNotFoundError:
        return _ABSENT


def _keyed(key: bytes, value: str) -> str:
    return hmac.new(key, value.encode(), hashlib.sha256).hexdigest()[:32]


def _binary(name: str, path: str) -> str:
    file = shutil.which(name, path=path)
    return _ABSENT if file is None else _version(Path(file))


def _version(file: Path) -> str:
    """Where a file is, its size and time of change: binaries are up to 200 MB, too much to read for each run."""
    real = file.resolve()
    status = real.stat()
    return f"{real} {status.st_size} {status.st_mtime_ns}"


def _packages() -> str:
    """Digest of names, versions and times of installation of all Python packages."""
    installed = sorted(Path(sysconfig.get_path("purelib")).glob("*.dist-info"))
    return hashlib.sha256("\n".join(f"{p.name} {p.stat().st_mtime_ns}" for p in installed).encode()).hexdigest()
