"""Claims of people's tokens that Tapis' services and libraries read, beside the standard ones; Strata reads none."""

from __future__ import annotations

from keycloak_realm.api import Json

SCOPE = {
    "name": "tapis",
    "protocol": "openid-connect",
    "attributes": {"include.in.token.scope": "false", "display.on.consent.screen": "false"},
}
_ACCESS_ONLY = {
    "access.token.claim": "true",
    "id.token.claim": "false",
    "userinfo.token.claim": "false",
    "introspection.token.claim": "true",
}


def mappers(site: str) -> list[Json]:
    """Mappers of the scope.

    Args:
        site: its name, which is that of the Tapis tenant and site.
    """
    username = {**_ACCESS_ONLY, "user.attribute": "username", "jsonType.label": "String"}
    return [
        _mapper("username", "oidc-usermodel-attribute-mapper", username),
        *(
            _mapper(name, "oidc-hardcoded-claim-mapper", {**_ACCESS_ONLY, "claim.value": value, "jsonType.label": kind})
            for name, value, kind in (
                ("tenant_id", site, "String"),
                ("target_site_id", site, "String"),
                ("account_type", "user", "String"),
                ("delegation", "false", "boolean"),
            )
        ),
    ]


def _mapper(name: str, kind: str, config: dict[str, str]) -> Json:
    claim = f"tapis/{name}"
    settings = {**config, "claim.name": claim}
    return {"name": claim, "protocol": "openid-connect", "protocolMapper": kind, "config": settings}
