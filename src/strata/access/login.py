"""How users of the site's issuer reach the cluster with kubectl."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import yaml

from strata.catalogue.cluster_login import CLIENT, ClusterLogin, cluster_login
from strata.errors import UserError
from strata.site.context import SiteContext

INSTALL_HINT = """\
kubectl needs the plugin oidc-login (kubelogin) to log in:
https://github.com/int128/kubelogin#setup, or `kubectl krew install oidc-login`
"""


@dataclass(frozen=True)
class ApiServer:
    """Where the cluster's API server is.

    Args:
        url: of the server.
        ca: PEM of the cluster's CA.
        name: in its certificate, where that does not hold the URL's.
    """

    url: str
    ca: str
    name: str | None = None


def api_server(context: SiteContext) -> ApiServer:
    """The API server that the administrator's kubeconfig names.

    Raises:
        UserError: the cluster is not deployed.
    """
    file = context.paths.kubeconfig
    if not file.exists():
        raise UserError(
            f"site {context.site.name} has no cluster yet", fix=f"strata up {context.site.name} --layer cluster"
        )
    (entry,) = yaml.safe_load(file.read_text())["clusters"]
    cluster = entry["cluster"]
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return ApiServer(cluster["server"], ca, cluster.get("tls-server-name"))


def user_kubeconfig(context: SiteContext, tenant: str | None = None, *, device: bool = False) -> dict[str, Any]:
    """A kubeconfig for any user of the site's issuer: it holds no credentials, kubelogin gets them.

    Args:
        context: the site.
        tenant: whose namespace kubectl uses; None: the only tenant's, else none.
        device: log in with a code on another device, where there is no browser.

    Raises:
        UserError: the cluster is not deployed, the site has no issuer, or no such tenant.
    """
    site = context.site
    login = cluster_login(site)
    if login is None:
        raise UserError(
            f"site {site.name} has no issuer, whose users could log in to its cluster",
            fix="name one in platform.services",
        )
    tenants = [declared.name for declared in site.platform.tenants]
    if tenant is not None and tenant not in tenants:
        names = ", ".join(tenants) or "it has none: add one to platform.tenants"
        raise UserError(f"site {site.name} has no tenant {tenant}", fix=names)
    namespace = tenant or (tenants[0] if len(tenants) == 1 else None)
    server = api_server(context)
    arguments = ["oidc-login", "get-token", f"--oidc-issuer-url={login.url}", f"--oidc-client-id={CLIENT}"]
    if ca := _ca(context, login):
        arguments.append(f"--certificate-authority-data={_base64(ca)}")
    if device:
        arguments += ["--grant-type=device-code", "--skip-open-browser"]
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "kubectl",
        "args": arguments,
        "installHint": INSTALL_HINT,
        "interactiveMode": "IfAvailable",
    }
    cluster = {"server": server.url, "certificate-authority-data": _base64(server.ca)}
    if server.name is not None:
        cluster["tls-server-name"] = server.name
    where = {"cluster": site.name, "user": f"{site.name}-login", **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": site.name,
        "clusters": [{"name": site.name, "cluster": cluster}],
        "users": [{"name": f"{site.name}-login", "user": {"exec": plugin}}],
        "contexts": [{"name": site.name, "context": where}],
    }


def _ca(context: SiteContext, login: ClusterLogin) -> str | None:
    """PEM of the CA that signs the issuer's certificate; None for a public one."""
    if login.site_ca:
        return context.secrets.ca
    return None if login.ca_file is None else (context.site_file.parent / login.ca_file).read_text()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
