"""The deployment host's configuration of package clients, for the commands that a build runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Client:
    """A client of a package registry.

    Args:
        target: the file that it reads in a build.
        files: the files that it reads on the deployment host, the first that exists counts.
        variables: of the environment; one that is set replaces the files.
        template: of the file, with the value of the variable as {}.
    """

    target: str
    files: tuple[str, ...]
    variables: tuple[str, ...] = ()
    template: str = ""


CLIENTS = (
    Client(
        "/etc/pip.conf", ("~/.config/pip/pip.conf", "/etc/pip.conf"), ("PIP_INDEX_URL",), "[global]\nindex-url = {}\n"
    ),
    Client(
        "/etc/uv/uv.toml",
        ("~/.config/uv/uv.toml", "/etc/uv/uv.toml"),
        ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
        '[[index]]\nurl = "{}"\ndefault = true\n',
    ),
    Client("/root/.npmrc", ("~/.npmrc",), ("npm_config_registry", "NPM_CONFIG_REGISTRY"), "registry={}\n"),
    Client("/root/.m2/settings.xml", ("~/.m2/settings.xml",)),
)


def mounts(directory: Path) -> list[str]:
    """Options of `podman build` that mount the configuration; the image keeps none of it, but empty files.

    Args:
        directory: for files that are made from variables.
    """
    options = []
    for client in CLIENTS:
        files = [Path(name).expanduser() for name in client.files]
        value = next((os.environ[name] for name in client.variables if os.environ.get(name)), None)
        if value:
            files = [directory / Path(client.target).name]
            files[0].write_text(client.template.format(value))
        options += [f"--volume={file}:{client.target}:ro" for file in files if file.is_file()][:1]
    return options
