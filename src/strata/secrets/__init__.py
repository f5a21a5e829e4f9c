"""A site's secrets: from the environment, from private files, or generated once and kept encrypted."""

from strata.secrets.pki import Certificate
from strata.secrets.store import SecretStore

__all__ = ["Certificate", "SecretStore"]
