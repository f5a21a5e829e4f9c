"""HTCondor's access point, over its own protocol with a token that may only read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from accounting.jobs import ATTRIBUTES, Ad, values

COMPLETED = "JobStatus == 4"


class NoPool(Exception):
    """The pool does not answer, or refuses; the text says why."""


class AccessPoint:
    """The jobs of one access point.

    Args:
        collector: host and port of the central manager.
        name: of the access point.
        domain: the pool's trust domain.
        token_file: with a token of scope READ, of any owner and mode.
    """

    def __init__(self, collector: str, name: str, domain: str, token_file: Path) -> None:
        self.collector, self.name = collector, name
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
        import htcondor2  # type: ignore[import-untyped]  # after its configuration

        self._client = htcondor2

    def _copy_token(self) -> None:
        # HTCondor takes tokens from files of its own user that no group can read; volumes of Secrets are root's
        self._token.touch(mode=0o600)
        self._token.write_text(self._token_file.read_text().strip() + "\n")

    def history(self, newest: str | None) -> list[Ad]:
        """Jobs that left the queue, the last one first, until the one with this global job id.

        Raises:
            NoPool: the pool does not answer.
        """
        since = None if newest is None else f'GlobalJobId == "{newest}"'
        return self._ask(lambda schedd: schedd.history("true", list(ATTRIBUTES), since=since))

    def completed(self) -> list[Ad]:
        """Jobs that finished and are still in the queue.

        Raises:
            NoPool: the pool does not answer.
        """
        return self._ask(lambda schedd: schedd.query(COMPLETED, list(ATTRIBUTES)))

    def _ask(self, question: Callable[[Any], Any]) -> list[Ad]:
        self._copy_token()
        try:
            found = self._client.Collector(self.collector).locate(self._client.DaemonType.Schedd, self.name)
            return values(question(self._client.Schedd(found)))
        except (self._client.HTCondorException, RuntimeError, ValueError) as error:
            raise NoPool(f"HTCondor {self.name}: {error}") from None
