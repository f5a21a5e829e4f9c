"""The Ansible inventory that follows from a site and its cloud layer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Template:
    """A Jinja expression of ours inside inventory variables; the plugin marks it as trusted.

    Args:
        expression: for instance ``{{ lookup('strata_secret', 'kine_database_password') }}``.
    """

    expression: str
