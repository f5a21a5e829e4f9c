"""Command: serves the model that the environment names."""

from __future__ import annotations

import sys

from pydantic import ValidationError

from model_server.loading import load
from model_server.settings import Settings


def main() -> int:
    """Entry of `python -m model_server`."""
    try:
        settings = Settings()
    except ValidationError as error:
        for problem in error.errors():
            name = str(problem["loc"][0]).upper()
            variable = name if name == "ACCELERATOR" else f"MODEL_SERVER_{name.removeprefix('MODEL_SERVER_')}"
            print(f"{variable}: {problem['msg']}", file=sys.stderr)
        return 2
    from model_server.litserve_transport import serve  # noqa: PLC0415  # the worker imports this module too

    serve(settings, load)
    return 0


if __name__ == "__main__":
    sys.exit(main())
