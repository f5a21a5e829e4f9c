"""Runs several management commands of one OpenStack service with one import of its code.

manage.py MODULE:FUNCTION PROGRAM [--accept STATUS] COMMAND…

Each COMMAND is one string, the arguments of PROGRAM. Commands run one after the other, each in a process of its own;
the first that ends with a status other than 0 or STATUS ends the run.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
import traceback


def run(main: object, arguments: list[str]) -> int:
    """Runs one command in a child; returns its exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        sys.argv = arguments
        status = main() or 0  # type: ignore[operator]
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function")
    parser.add_argument("program")
    parser.add_argument("--accept", type=int, default=0, help="another exit status that is not a failure")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    module, _, name = options.function.partition(":")
    function = getattr(importlib.import_module(module), name)
    for command in options.command:
        status = run(function, [options.program, *shlex.split(command)])
        if status not in (0, options.accept):
            print(f"{options.program} {command}: exit status {status}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
