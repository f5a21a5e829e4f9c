"""The OpenID Connect issuer of a lab."""
