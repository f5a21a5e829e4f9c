"""A secret store for tests of values, without a site."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from strata.site.secrets import Certificate

CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


class MadeUpSecrets:
    """Makes up each secret at its first use, and keeps it in memory."""

    ca = CA

    def __init__(self) -> None:
        self.stored: dict[str, str] = {}

    def get(self, name: str, make: Callable[[], str] | None = None) -> str:
        """The secret of that name: what `make` returns, else a text with its name."""
        if name not in self.stored:
            self.stored[name] = make() if make else f"generated-{name}"
        return self.stored[name]

    def peek(self, name: str) -> str | None:
        """The secret of that name; None before its first use."""
        return self.stored.get(name)

    def certificate(self, name: str, dns_names: Sequence[str] = ()) -> Certificate:
        """A certificate in name only."""
        return Certificate(f"certificate {name} of {', '.join(dns_names)}", self.get(f"key of {name}"), self.ca)
