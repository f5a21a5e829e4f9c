"""A site's secrets: from the environment, from private files, or generated once and kept encrypted."""

from strata.site.secrets.pki import Certificate
from strata.site.secrets.store import SecretStore

__all__ = ["Certificate", "SecretStore"]
