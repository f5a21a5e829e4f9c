"""Whether the operator has provided the secrets that a site declares."""

from __future__ import annotations

from strata.errors import UserError
from strata.models.site import Site
from strata.site.secrets.store import read_declared


def check_secrets(site: Site) -> None:
    """Checks each secret with source environment or file; its value is not stored.

    Raises:
        UserError: one or more are not provided; names all of them.
    """
    declared = [(index, secret) for index, secret in enumerate(site.secrets) if secret.source != "generated"]
    if not declared:
        return

    missing: list[str] = []
    fixes: list[str] = []
    for index, secret in declared:
        try:
            read_declared(secret)
        except UserError as error:
            missing.append(f"secrets[{index}]: {error.message}")
            fixes += [error.fix] if error.fix else []
    if missing:
        text = "\n".join([f"site {site.name}: secrets are not provided", *missing])
        raise UserError(text, fix="; ".join(fixes), see="a-secret-is-missing")
