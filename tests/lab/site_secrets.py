"""The secrets of the site, and what an `up` of it must not show of them."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from strata.catalogue.backup_items import ACCESS_KEY, PASSWORD, SECRET_KEY
from strata.observe.hosts import ssh
from strata.site.context import SiteContext
from strata.site.host_list import address_of

from .commands import strata_line
from .lab_site import is_lab
from .needles import Needles
from .processes import Watched, watched

SSH_KEY = "SSH key"
ADMINISTRATOR_KEY = "cluster administrator's key"

IN_ENVIRONMENT = {
    "kine": {"kine_database_password"},  # its connection string; systemd reads it from a file of mode 0600
    # zero-to-jupyterhub's chart hands them to the hub, and the proxy's token to the proxy
    "jupyterhub": {
        *("jupyterhub_database_password", "jupyterhub_client_secret", "jupyterhub_proxy_token"),
        "htcondor_token_secret",
    },
    "restic": {PASSWORD, SECRET_KEY},
    "node": {"jupyterhub_proxy_token"},
    "MainThread": {"jupyterhub_proxy_token"},  # Node.js soon names its thread so
}
"""Commands to the secrets that may be in their environment."""

PKI = "/etc/kubernetes/pki"
PROGRAMS = {
    *("ansible-playbook", "openstack.yml", "hosts.yml", "cluster.yml"),
    *("pulumi", "pulumi-resource-openstack", "pulumi-language-python", "helm", "kubectl"),
}
"""Programs and playbooks, seen in command lines, that handle secrets in an `up` of a lab."""
INTERPRETER = b"(mitogen:"
"""In the command line of the interpreter that Ansible's modules run in, on each machine."""


def site_needles(context: SiteContext) -> Needles:
    """Every generated secret, the passphrase that they are encrypted with, and the keys that are kept elsewhere."""
    # the id of a key is not secret
    known = {name: value for name, value in context.secrets.known().items() if name != ACCESS_KEY}
    assert len(known) >= 5
    known["passphrase"] = context.paths.passphrase_file.read_text().strip()
    known[SSH_KEY] = context.paths.ssh_key.read_text()
    return Needles(known | (_cluster_keys(context) if context.site.cluster is not None else {}))


def _cluster_keys(context: SiteContext) -> dict[str, str]:
    """The keys that kubeadm made on the first host of the control plane, and the administrator's."""
    address = address_of("kube_control_plane", context.site, context.cloud_outputs)
    assert address
    # not by testinfra, whose log pytest prints with a failure
    answer, error = ssh(context, address, f"cd {PKI} && for key in *.key; do echo $key; base64 -w 0 $key; echo; done")
    lines = answer.splitlines()
    keys = {name: base64.b64decode(key).decode() for name, key in zip(lines[::2], lines[1::2], strict=True)}
    assert keys.keys() >= {"ca.key", "sa.key", "front-proxy-ca.key"}, error
    user = yaml.safe_load(context.paths.kubeconfig.read_text())["users"][0]["user"]
    return keys | {ADMINISTRATOR_KEY: base64.b64decode(user["client-key-data"]).decode()}


def watched_up(context: SiteContext, log: Path, needles: Needles, option: str) -> Watched:
    """An `up` with one more option, with all processes of this machine looked at meanwhile; must succeed.

    Args:
        context: the site.
        log: file for its output.
        needles: the site's secrets.
        option: of `up`.
    """
    done = watched(strata_line(context, "up", "--no-verify", option), log, needles, IN_ENVIRONMENT)
    assert done.status == 0, (done.errors or done.output)[-3000:]
    return done


def shows_no_secret(context: SiteContext, up: Watched, needles: Needles) -> bool:
    """Whether an `up` that ran every playbook and program showed no secret in a command line, an environment or its
    output; fails with what it showed, or with the programs that were not seen."""
    cloud = context.site.cloud
    if is_lab(context) and cloud is not None and context.site.cluster is not None:
        unseen = PROGRAMS - up.words
        assert unseen == set(), "too few were seen for the answer to say anything"
        interpreters = sum(INTERPRETER in line for line in up.elsewhere)
        assert interpreters > len(cloud.instances), "Ansible's modules were not seen on every machine"
    assert up.leaks == {}, up.leaks
    assert needles.found(up.output + up.errors) == set()
    return True
