"""`strata kubeconfig`: a kubeconfig for every user, without a credential of anybody."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from strata.access.login import user_kubeconfig
from strata.catalogue.cluster_login import CLIENT, cluster_login
from strata.errors import UserError
from strata.site.context import SiteContext
from strata.site.outputs import write_private
from strata.site_file.inventories import find_site

CA = base64.b64encode(b"the cluster's CA").decode()
KEY = base64.b64encode(b"the administrator's key").decode()


@pytest.fixture
def context(state_directory: Path) -> SiteContext:
    """The lab with an administrator's kubeconfig."""
    loaded = SiteContext.load(find_site("lab"))
    cluster = {"server": "https://10.77.0.12:6443", "certificate-authority-data": CA}
    administrator = {
        "clusters": [{"name": "platform", "cluster": cluster}],
        "users": [{"name": "kubernetes-admin", "user": {"client-key-data": KEY}}],
    }
    write_private(loaded.paths.kubeconfig, yaml.safe_dump(administrator))
    return loaded


def test_it_leads_to_the_cluster_and_the_issuer(context: SiteContext) -> None:
    content = user_kubeconfig(context, "research")
    (cluster,) = content["clusters"]
    assert cluster["cluster"] == {"server": "https://10.77.0.12:6443", "certificate-authority-data": CA}
    (entry,) = content["contexts"]
    assert entry["context"]["namespace"] == "research"
    (user,) = content["users"]
    plugin = user["user"]["exec"]
    login = cluster_login(context.site)
    assert login is not None
    assert plugin["args"] == [
        "oidc-login",
        "get-token",
        f"--oidc-issuer-url={login.url}",
        f"--oidc-client-id={CLIENT}",
        f"--certificate-authority-data={base64.b64encode(context.secrets.ca.encode()).decode()}",
    ]
    assert KEY not in str(content)
    device = user_kubeconfig(context, device=True)["users"][0]["user"]["exec"]["args"]
    assert device == [*plugin["args"], "--grant-type=device-code", "--skip-open-browser"]


def test_the_only_tenant_s_namespace_is_the_default(context: SiteContext) -> None:
    platform = context.site.platform.model_copy(update={"tenants": context.site.platform.tenants[:1]})
    single_tenant = replace(context, site=context.site.model_copy(update={"platform": platform}))
    assert user_kubeconfig(single_tenant)["contexts"][0]["context"]["namespace"] == "research"


def test_a_server_at_a_floating_ip_is_checked_by_its_name(context: SiteContext) -> None:
    administrator = yaml.safe_load(context.paths.kubeconfig.read_text())
    outside = {"server": "https://203.0.113.8:6443", "tls-server-name": "kubernetes"}
    administrator["clusters"][0]["cluster"] |= outside
    write_private(context.paths.kubeconfig, yaml.safe_dump(administrator))
    (cluster,) = user_kubeconfig(context)["clusters"]
    assert cluster["cluster"] == {**outside, "certificate-authority-data": CA}


def test_what_it_cannot_lead_to_is_an_error(context: SiteContext) -> None:
    with pytest.raises(UserError, match="has no tenant biology"):
        user_kubeconfig(context, "biology")
    platform = context.site.platform
    none = platform.model_copy(update={"services": type(platform.services)()})
    site = context.site.model_copy(update={"platform": none})
    with pytest.raises(UserError, match="has no issuer"):
        user_kubeconfig(SiteContext(site, context.site_file, context.paths))
    context.paths.kubeconfig.unlink()
    with pytest.raises(UserError, match="has no cluster yet"):
        user_kubeconfig(context)
