"""Kolla-Ansible's configuration directory in the site's state: the files of the site, the package's groups, secrets."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path

import yaml

from strata.errors import UserError
from strata.installers.kolla.files import public_files, section
from strata.site.context import SiteContext
from strata.site.outputs import write_private
from strata.site.paths import SitePaths
from strata.toolchain.python_environment import Environment

PASSWORDS = "kolla_passwords"
"""Secret with Kolla-Ansible's passwords.yml as its text."""
FIRST_OF_PACKAGE = "[deployment]"
"""The package's multinode inventory names example hosts before this group, and Kolla's own groups from it on."""
KEYRINGS = {
    "kolla_ceph_glance_key": ("glance", ("glance/ceph.client.glance.keyring",)),
    "kolla_ceph_cinder_key": (
        "cinder",
        ("cinder/cinder-volume/ceph.client.cinder.keyring", "nova/ceph.client.cinder.keyring"),
    ),
}
"""Secret to Ceph user and the files with its key, below config/."""


def configuration_directory(paths: SitePaths) -> Path:
    """Kolla-Ansible's `--configdir` of a site; mode 0700."""
    return paths.root / "kolla"


def package_groups(environment: Environment) -> str:
    """Kolla's service groups, of the pinned package's multinode inventory.

    Raises:
        UserError: the file has another form in this version.
    """
    file = environment.share / "kolla-ansible" / "ansible" / "inventory" / "multinode"
    before, separator, services = file.read_text().partition(f"\n{FIRST_OF_PACKAGE}\n")
    if not separator or "[control]" not in before:
        raise UserError(
            f"{file}: has no group {FIRST_OF_PACKAGE} after its hosts",
            fix="pin a version of Kolla-Ansible that Strata supports",
            see="a-python-environment-cannot-be-installed",
        )
    return f"{FIRST_OF_PACKAGE}\n{services}"


def passwords(context: SiteContext, environment: Environment) -> str:
    """The text of passwords.yml: those of earlier runs, and new ones where this version needs more."""
    template = yaml.safe_load((environment.share / "kolla-ansible" / "etc_examples/kolla/passwords.yml").read_text())
    kept = yaml.safe_load(context.secrets.peek(PASSWORDS) or "{}")
    if set(template) <= set(kept):
        return context.secrets.get(PASSWORDS)

    def complete() -> str:
        return generate_passwords({**template, **kept}, environment)

    if kept:
        context.secrets.rotate(PASSWORDS, make=complete)
    return context.secrets.get(PASSWORDS, complete)


def generate_passwords(known: dict[str, object], environment: Environment) -> str:
    """Has kolla-genpwd fill in what is empty.

    Raises:
        UserError: it failed.
    """
    with tempfile.TemporaryDirectory() as directory:  # mode 0700
        file = Path(directory, "passwords.yml")
        write_private(file, yaml.safe_dump(known))
        command = [str(environment.programs / "kolla-genpwd"), "--passwords", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise UserError(
                f"kolla-genpwd failed: {done.stderr.strip()[-500:]}",
                fix="run the same command again",
                see="kolla-ansible-failed",
            )
        return file.read_text()


def write_configuration(context: SiteContext, environment: Environment) -> int:
    """Writes everything that Kolla-Ansible reads, each file with mode 0600, and removes what is no longer needed.

    Returns:
        The number of files that changed.
    """
    directory = configuration_directory(context.paths)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = public_files(context.site) | {
        "inventory/20-services.ini": package_groups(environment),
        "passwords.yml": passwords(context, environment),
        **_certificates(context),
        **_keyrings(context),
    }
    changed = sum([write_private(directory / name, text) for name, text in files.items()])
    for folder in ("inventory", "config", "certificates"):
        for file in (f for f in (directory / folder).rglob("*") if f.is_file()):
            if str(file.relative_to(directory)) not in files:
                file.unlink()
                changed += 1
    return changed


def configuration_digest(paths: SitePaths, *folders: str) -> str:
    """Digest of the written files.

    Args:
        paths: of the site.
        folders: files and folders to include, relative to the configuration directory; default: all.
    """
    directory, digest = configuration_directory(paths), hashlib.sha256()
    for top in folders or ("inventory", "globals.yml", "passwords.yml", "config", "certificates"):
        place = directory / top
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.is_file():
                digest.update(f"{file.relative_to(directory)}\0{file.read_text()}\0".encode())
    return digest.hexdigest()


def admin_password(paths: SitePaths) -> str:
    """Password of keystone's admin."""
    text = (configuration_directory(paths) / "passwords.yml").read_text()
    return str(yaml.safe_load(text)["keystone_admin_password"])


def _certificates(context: SiteContext) -> dict[str, str]:
    """TLS of both virtual addresses by the site's CA; ProxySQL, between services and database, has the internal one."""
    _, kolla = section(context.site)
    external, internal = (
        context.secrets.certificate(f"kolla-{name}", [address.name], [str(address.address)])
        for name, address in (("external", kolla.external), ("internal", kolla.internal))
    )
    return {
        "certificates/ca/strata.crt": external.ca,
        "certificates/haproxy.pem": external.certificate + external.private_key,
        "certificates/haproxy-internal.pem": internal.certificate + internal.private_key,
        "certificates/proxysql-cert.pem": internal.certificate,
        "certificates/proxysql-key.pem": internal.private_key,
    }


def _keyrings(context: SiteContext) -> dict[str, str]:
    _, kolla = section(context.site)
    if kolla.ceph is None:
        return {}
    return {
        f"config/{file}": f"[client.{user}]\nkey = {context.secrets.get(secret)}\n"
        for secret, (user, files) in KEYRINGS.items()
        for file in files
    }
