"""HTCondor's schedds, over its own protocol with a token that may only read."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from accounting.jobs import ATTRIBUTES, Ad, NoPool, values

COMPLETED = "JobStatus == 4"


class Client:
    """HTCondor's client for Python, which has one configuration for a process.

    Args:
        collector: host and port of the central manager.
        domain: the pool's trust domain.
        token_file: with a token of scope READ, of any owner and mode.
    """

    def __init__(self, collector: str, domain: str, token_file: Path) -> None:
        self.collector = collector
        directory = Path(mkdtemp(prefix="htcondor-"))
        self._token_file, self._token = token_file, directory / "token"
        self._copy_token()
        # read when the client is loaded; there is no configuration file
        os.environ |= {
            "CONDOR_CONFIG": "/dev/null",
            "_CONDOR_SEC_TOKEN_DIRECTORY": str(directory),
            "_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS": "IDTOKENS",
            "_CONDOR_SEC_DEFAULT_ENCRYPTION": "REQUIRED",
            "_CONDOR_SEC_DEFAULT_INTEGRITY": "REQUIRED",
            "_CONDOR_TRUST_DOMAIN": domain,
            "_CONDOR_UID_DOMAIN": domain,
            "_CONDOR_ENABLE_IPV6": "False",
        }
        import htcondor2  # type: ignore[import-untyped]  # noqa: PLC0415  # reads its configuration on import

        self._htcondor = htcondor2

    def _copy_token(self) -> None:
        # HTCondor takes tokens from files of its own user that no group can read; volumes of Secrets are root's
        self._token.touch(mode=0o600)
        self._token.write_text(self._token_file.read_text().strip() + "\n")

    def ask(self, name: str, question: Callable[[Any], Any]) -> list[Ad]:
        """What the schedd with this name answers.

        Raises:
            NoPool: it does not respond.
        """
        self._copy_token()
        try:
            location = self._htcondor.Collector(self.collector).locate(self._htcondor.DaemonType.Schedd, name)
            return values(question(self._htcondor.Schedd(location)))
        except (self._htcondor.HTCondorException, RuntimeError, ValueError) as error:
            raise NoPool(f"HTCondor {name}: {error}") from None


@dataclass(frozen=True)
class Schedd:
    """The jobs of one schedd.

    Args:
        client: of the pool.
        name: of the schedd.
    """

    client: Client
    name: str

    def history(self, newest: str | None) -> list[Ad]:
        """Jobs that left the queue, the last one first, until the one with this global job id.

        Raises:
            NoPool: the pool does not respond.
        """
        since = None if newest is None else f'GlobalJobId == "{newest}"'
        return self.client.ask(self.name, lambda schedd: schedd.history("true", list(ATTRIBUTES), since=since))

    def completed(self) -> list[Ad]:
        """Jobs that finished and are still in the queue.

        Raises:
            NoPool: the pool does not respond.
        """
        return self.client.ask(self.name, lambda schedd: schedd.query(COMPLETED, list(ATTRIBUTES)))
