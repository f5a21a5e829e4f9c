"""Brings a realm to what is desired; what others made in Keycloak stays as it is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from keycloak_realm import groups, tapis_claims
from keycloak_realm.api import Api, Json, Refused
from keycloak_realm.desired import Client, Desired

KEYS = "org.keycloak.keys.KeyProvider"
MANAGED = "strata.managed"
"""Attribute of clients that Strata keeps."""
DEFAULT_SCOPES = ("basic", "profile", "email", "groups")
OFFLINE_SCOPE = "offline_access"
"""Keycloak's own; it brings the role of the same name, which all users have, into the tokens' scope."""
UNUSED_CLIENTS = ("admin-cli", "security-admin-console")
"""Of the realm: clients of administrators, who log in to another realm."""
ACCOUNT_CLIENT = "account-console"
"""Of the pages where users see their account."""
GROUPS_SCOPE = {
    "name": "groups",
    "protocol": "openid-connect",
    "attributes": {"include.in.token.scope": "true", "display.on.consent.screen": "false"},
}
GROUPS_MAPPER = {
    "name": "groups",
    "protocol": "openid-connect",
    "protocolMapper": "oidc-group-membership-mapper",
    "config": {
        "claim.name": "groups",
        "full.path": "true",
        "id.token.claim": "true",
        "access.token.claim": "true",
        "userinfo.token.claim": "true",
        "introspection.token.claim": "true",
    },
}


def audience_scope(audience: str) -> str:
    """Name of the client scope that makes tokens good for an audience."""
    return f"audience:{audience}"


def reconcile(api: Api, desired: Desired) -> list[str]:
    """Makes what is missing, corrects what differs, removes what Strata made and wants no longer.

    Returns:
        what Keycloak refused of single users; all else is done.

    Raises:
        Refused: Keycloak answered with an error.
        Unavailable: it did not respond.
    """
    _realm(api, desired)
    _keys(api, desired)
    _profile(api)
    _scopes(api, desired)
    _clients(api, desired)
    problems = groups.reconcile(api, desired)
    api.adopt_secret()
    return problems


def _realm(api: Api, desired: Desired) -> None:
    settings = json.loads(Path(__file__).with_name("realm.json").read_text())
    settings |= {"realm": desired.realm, "displayName": desired.title}
    try:
        live = api.get("")
    except Refused as error:
        if error.status != 404:
            raise
        # with its keys, or Keycloak would make some of its own that sign
        keys = [{k: v for k, v in provider.items() if k != "providerType"} for provider in _key_providers(desired)]
        api.request("POST", "/admin/realms", settings | {"components": {KEYS: keys}})
        return
    if any(live.get(key) != value for key, value in settings.items()):
        api.put("", settings)


def _key_name(pem: str) -> str:
    return f"signing-{hashlib.sha256(pem.encode()).hexdigest()[:16]}"


def _key_providers(desired: Desired) -> list[Json]:
    signing, *previous = desired.signing_keys
    return [_rsa(signing, "200", active=True), *(_rsa(pem, "100", active=False) for pem in previous)]


def _rsa(pem: str, priority: str, *, active: bool) -> Json:
    config = {"privateKey": pem, "priority": priority, "enabled": "true", "active": str(active).lower()}
    config |= {"algorithm": "RS256", "keyUse": "SIG"}
    return {
        "name": _key_name(pem),
        "providerId": "rsa",
        "providerType": KEYS,
        "config": {key: [value] for key, value in config.items()},
    }


def _keys(api: Api, desired: Desired) -> None:
    """The current key signs; the one before is published; others of ours go."""
    live = {entry["name"]: entry for entry in api.get("/components", type=KEYS)}
    providers = {entry["name"]: entry for entry in _key_providers(desired)}
    for name, entry in providers.items():
        if name not in live:
            api.post("/components", entry)
            continue
        shown = live[name]["config"]
        if any(shown.get(key) != entry["config"][key] for key in ("active", "enabled", "priority")):
            api.put(f"/components/{live[name]['id']}", live[name] | {"config": entry["config"]})
    for name, entry in live.items():
        if name not in providers and (name.startswith("signing-") or name == "rsa-generated"):
            api.delete(f"/components/{entry['id']}")


def _profile(api: Api) -> None:
    """A user needs a name to log in and nothing else: Keycloak would ask at the first login."""
    profile = api.get("/users/profile")
    if any("required" in attribute for attribute in profile["attributes"]):
        for attribute in profile["attributes"]:
            attribute.pop("required", None)
        api.put("/users/profile", profile)


def _scopes(api: Api, desired: Desired) -> None:
    live = {scope["name"]: scope for scope in api.get("/client-scopes")}
    scopes: dict[str, tuple[Json, list[Json]]] = {
        "groups": (GROUPS_SCOPE, [GROUPS_MAPPER]),
        tapis_claims.SCOPE["name"]: (tapis_claims.SCOPE, tapis_claims.mappers(desired.title)),
    }
    for audience in desired.audiences:
        name = audience_scope(audience)
        scope = {"name": name, "protocol": "openid-connect", "attributes": {"include.in.token.scope": "false"}}
        config = {"included.custom.audience": audience, "access.token.claim": "true", "id.token.claim": "false"}
        config["introspection.token.claim"] = "true"
        mapper = {"name": "audience", "protocol": "openid-connect", "protocolMapper": "oidc-audience-mapper"}
        scopes[name] = (scope, [{**mapper, "config": config}])
    for name, (scope, mappers) in scopes.items():
        if name not in live:
            api.post("/client-scopes", {**scope, "protocolMappers": mappers})
            continue
        existing = {entry["name"]: entry for entry in live[name].get("protocolMappers", [])}
        path = f"/client-scopes/{live[name]['id']}/protocol-mappers/models"
        for mapper in mappers:
            if mapper["name"] not in existing:
                api.post(path, mapper)
            elif not _covers(existing[mapper["name"]], mapper):
                api.put(f"{path}/{existing[mapper['name']]['id']}", {**existing[mapper["name"]], **mapper})
    for name, scope in live.items():
        if name.startswith(audience_scope("")) and name not in scopes:
            api.delete(f"/client-scopes/{scope['id']}")


def _clients(api: Api, desired: Desired) -> None:
    live = {client["clientId"]: client for client in api.get("/clients")}
    for name in UNUSED_CLIENTS:
        if live[name]["enabled"]:
            api.put(f"/clients/{live[name]['id']}", {**live[name], "enabled": False})
    scopes = {scope["name"]: scope["id"] for scope in api.get("/client-scopes")}
    account = live[ACCOUNT_CLIENT]
    if "groups" not in account["defaultClientScopes"]:
        api.put(f"/clients/{account['id']}/default-client-scopes/{scopes['groups']}", {})
    for client in desired.clients:
        body = representation(client)
        if client.id not in live:
            api.post("/clients", body)
            continue
        current = live[client.id]
        path = f"/clients/{current['id']}"
        lists = {"defaultClientScopes": "default-client-scopes", "optionalClientScopes": "optional-client-scopes"}
        if not _covers(current, {key: value for key, value in body.items() if key not in lists}):
            attributes = {**current.get("attributes", {}), **body["attributes"]}
            api.put(path, {**current, **body, "attributes": attributes})
        for key, folder in lists.items():
            for name in set(body[key]) - set(current.get(key, [])):
                api.put(f"{path}/{folder}/{scopes[name]}", {})
            for name in set(current.get(key, [])) - set(body[key]):
                api.delete(f"{path}/{folder}/{scopes[name]}")
    ids = {client.id for client in desired.clients}
    for name, client in live.items():
        if name not in ids and client.get("attributes", {}).get(MANAGED) == "true":
            api.delete(f"/clients/{client['id']}")


def representation(client: Client) -> dict[str, Any]:
    """A client as Keycloak has it."""
    scopes = [*DEFAULT_SCOPES, *map(audience_scope, client.audiences)]
    if client.service_account:
        scopes.append("service_account")
    if client.has_logins:
        scopes.append(tapis_claims.SCOPE["name"])
    optional = [*map(audience_scope, client.optional_audiences), *([OFFLINE_SCOPE] if client.offline else [])]
    attributes = {
        MANAGED: "true",
        "post.logout.redirect.uris": "##".join(client.logout_urls),
        "oauth2.device.authorization.grant.enabled": str(client.device).lower(),
        "use.refresh.tokens": "true",
        "client_credentials.use_refresh_token": "false",
    }
    # where it is required, codes for another device need it too, which kubelogin requests without; its logins by
    # browser have it all the same
    attributes["pkce.code.challenge.method"] = "S256" if client.redirect_urls and not client.device else ""
    return {
        "clientId": client.id,
        "protocol": "openid-connect",
        "enabled": True,
        "publicClient": not client.secret,
        **({"secret": client.secret, "clientAuthenticatorType": "client-secret"} if client.secret else {}),
        "standardFlowEnabled": bool(client.redirect_urls),
        "implicitFlowEnabled": False,
        "directAccessGrantsEnabled": client.passwords,
        "serviceAccountsEnabled": client.service_account,
        "fullScopeAllowed": False,
        "redirectUris": sorted(client.redirect_urls),
        "webOrigins": [],
        "attributes": attributes,
        "defaultClientScopes": sorted(scopes),
        "optionalClientScopes": sorted(optional),
    }


def _covers(live: Json, desired: Json) -> bool:
    """Whether the desired state is reached; of maps, only the desired keys count."""
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(_covers(live.get(key), value) for key, value in desired.items())
    if isinstance(desired, list):
        return isinstance(live, list) and sorted(live) == sorted(desired)
    # Keycloak leaves out what is empty
    return bool(live == desired or (desired == "" and live is None))
