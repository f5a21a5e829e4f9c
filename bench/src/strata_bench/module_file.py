"""Python files that belong to no package: modules of Ansible roles, programs that hosts and images are given."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load_module(file: Path, name: str | None = None) -> ModuleType:
    """Runs a file as a new module.

    Writes no byte code beside it: the file may be part of a chart, which another file changes.

    Args:
        file: the Python file.
        name: of the module; None: the file's.
    """
    spec = importlib.util.spec_from_file_location(name or file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its data classes look for their types
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module
