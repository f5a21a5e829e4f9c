"""Gives secrets other values, and certificates another life; the next `up` carries them everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from strata.access.ssh import Unreachable, all_addresses, run_ssh
from strata.catalogue.needs import Secret
from strata.catalogue.service import FINGERPRINT_KEY
from strata.catalogue.site_services import needed
from strata.engine.cluster_installer import cluster_installer
from strata.engine.keys import new_ssh_key
from strata.engine.run_record import last_complete_run
from strata.errors import UserError
from strata.layers import Layer
from strata.progress import Progress
from strata.site.context import SiteContext
from strata.site.host_list import hosts_with
from strata.site.outputs import write_private
from strata.site.secrets.pki import validity
from strata.site.secrets.store import AuthorityPhase, new_secret
from strata.stacks.pulumi import Program, change_passphrase

SSH_KEY = "ssh_key"
PASSPHRASE = "passphrase"  # noqa: S105 the name of a secret, not one
KUBERNETES = "kubernetes"
"""All certificates that kubeadm made, under one name."""
AUTHORITY = "authority"
KUBEADM_SECONDS = 365 * 86400
"""Life of the certificates that kubeadm makes."""
ADD_KEY = (
    "umask 077; cd ~/.ssh && cat > .next && { grep -qxFf .next authorized_keys || cat .next >> authorized_keys; } "
    "&& rm .next"
)
"""Shell on a host: trusts the key on its standard input."""
REMOVE_KEY = (
    "umask 077; cd ~/.ssh && cat > .old && { grep -vxFf .old authorized_keys > .kept; "
    "mv .kept authorized_keys; rm .old; }"
)
"""Shell on a host: trusts the key on its standard input no longer."""


@dataclass(frozen=True)
class SecretEntry:
    """One secret of a site.

    Args:
        name: for `strata secrets rotate`.
        source: who makes it.
        applied: what brings a new value to where it is used.
    """

    name: str
    source: Literal["generated", "environment", "file"]
    applied: Literal["at once", "by the next up", "by the operator"]


@dataclass(frozen=True)
class CertificateEntry:
    """One certificate of a site.

    Args:
        name: for `strata certificates renew`.
        ends: date of its end, ISO 8601.
        days: left, rounded down.
        due: whether the next `up` renews it.
    """

    name: str
    ends: str
    days: int
    due: bool


def list_secrets(context: SiteContext) -> list[SecretEntry]:
    """Every secret of the site that has come into being, by name."""
    provided = {s.name: s.source for s in context.site.secrets if s.source != "generated"}
    entries = [SecretEntry(SSH_KEY, "generated", "at once"), SecretEntry(PASSPHRASE, "generated", "at once")]
    hidden = {need.previous for _, need in needed(context.site, Secret) if need.keep_previous}
    hidden |= {FINGERPRINT_KEY, *context.provider.lasting_secrets}
    entries += [
        SecretEntry(name, "generated", "by the next up") for name in context.secrets.names() if name not in hidden
    ]
    return [*entries, *(SecretEntry(name, source, "by the operator") for name, source in provided.items())]


def list_certificates(context: SiteContext) -> list[CertificateEntry]:
    """Every certificate that the site's authority signed, and its own."""
    entries = []
    for name, text in context.secrets.certificates().items():
        life = validity(text)
        due = life.due and name != AUTHORITY
        entries.append(CertificateEntry(name, life.ends.date().isoformat(), life.left.days, due))
    return [*entries, *_kubernetes(context)]


def _kubernetes(context: SiteContext) -> list[CertificateEntry]:
    """The earliest end of the certificates that kubeadm made; nothing where no control plane answers."""
    entries = []
    for host in hosts_with("kube_control_plane", context.site, context.cloud_outputs):
        try:
            done = run_ssh(context, host.address, "kubeadm certs check-expiration -o json", seconds=60)
            certificates = json.loads(done.stdout)["certificates"]
        except (Unreachable, ValueError):
            continue
        first = min(certificates, key=lambda certificate: int(certificate["residualTime"]))
        seconds = int(first["residualTime"])
        due = seconds < KUBEADM_SECONDS / 3
        entries.append(CertificateEntry(KUBERNETES, first["expirationDate"][:10], seconds // 86400, due))
    return entries[:1]


def rotate(context: SiteContext, names: Iterable[str], progress: Progress) -> list[SecretEntry]:
    """Gives each secret another value.

    Args:
        context: the site.
        names: as `list_secrets` has them.
        progress: shows the current secret.

    Returns:
        Those that were rotated.

    Raises:
        UserError: there is none of that name, the operator provides it, or its value before is still in use; nothing
            was rotated. Or a host does not take a new key; what was rotated before stays so.
    """
    known = {entry.name: entry for entry in list_secrets(context)}
    selected = list(dict.fromkeys(names))
    for name in selected:
        if name not in known:
            raise UserError(
                f"site {context.site.name} has no secret {name}", fix=f"one of {', '.join(known)}; or `all`"
            )
        if known[name].applied == "by the operator":
            raise UserError(
                f"secret {name} comes from the {known[name].source}, Strata does not make it",
                fix="put another value there, then `strata up`",
            )
    special: dict[str, Callable[[SiteContext, Progress], None]] = {
        SSH_KEY: rotate_ssh_key,
        PASSPHRASE: rotate_passphrase,
    }
    declared = {need.name: need for _, need in needed(context.site, Secret)}
    for name in selected:
        since = context.secrets.rotated(name)
        if since is not None and not _reached(context, {Layer.PLATFORM}, since):
            # one value before is kept; it is the one in use
            raise UserError(
                f"secret {name} was rotated, and the site does not have the new value yet",
                fix=f"`strata up {context.site.name}`, then the same command again",
            )
    for name in selected:
        progress.update(f"rotating {name}")
        if name in special:
            special[name](context, progress)
        else:
            need = declared.get(name, Secret(name))
            context.secrets.rotate(name, keep=need.previous if need.keep_previous else None, make=need.make)
    return [known[name] for name in selected]


def rotate_ssh_key(context: SiteContext, progress: Progress) -> None:
    """Gives the site another SSH key: brought to every host with the old one, tried, then the old one is taken away.

    Raises:
        UserError: a host does not respond or does not take the key; the old key then still opens every host.
    """
    paths = context.paths
    next_key = paths.root / "ssh_key.next"
    if not next_key.exists():  # else one that an interrupted rotation may have brought to some hosts
        private, public = new_ssh_key(paths)
        write_private(next_key.with_suffix(".next.pub"), public)
        write_private(next_key, private)
    public = next_key.with_suffix(".next.pub").read_text().strip()
    old = paths.ssh_key.with_suffix(".pub").read_text().strip()
    addresses = all_addresses(context)
    for name, address in addresses.items():
        progress.update(f"adding the new key to {name}")
        _ssh(context, name, address, ADD_KEY, public + "\n")
    for name, address in addresses.items():
        _ssh(context, name, address, "true", key=next_key)
    write_private(paths.ssh_key.with_suffix(".pub"), public + "\n")
    next_key.replace(paths.ssh_key)
    next_key.with_suffix(".next.pub").unlink()
    for name, address in addresses.items():
        progress.update(f"removing the old key from {name}")
        _ssh(context, name, address, REMOVE_KEY, old + "\n")


def _ssh(
    context: SiteContext, name: str, address: str, command: str, text: str = "", *, key: Path | None = None
) -> None:
    try:
        only = ("-o", "IdentitiesOnly=yes")
        done = run_ssh(context, address, command, text=text, seconds=60, options=only, key=key, root=False)
        reason = (done.stderr.strip() or "no answer") if done.returncode != 0 else ""
    except Unreachable as error:
        reason = str(error)
    if reason:
        raise UserError(
            f"{name} ({address}) does not accept the new SSH key: {reason}",
            fix=f"`strata up {context.site.name}`, then the same command again",
        )


def rotate_passphrase(context: SiteContext, progress: Progress) -> None:
    """Encrypts the secret store and the state of both Pulumi programs with another passphrase.

    Raises:
        UserError: pulumi refused; the same command again goes on.
    """
    paths = context.paths
    following = paths.next_passphrase_file
    if not following.exists():
        write_private(following, new_secret() + "\n")
    programs: tuple[Program, ...] = ("cloud", "platform")
    for program in programs:
        progress.update(f"encrypting the state of {program}")
        change_passphrase(program, context.site, paths, progress, following, site_file=context.site_file)
    progress.update("encrypting the secret store")
    context.secrets.change_passphrase(following.read_text().strip())
    following.unlink()


def renew(context: SiteContext, names: Iterable[str], progress: Progress) -> list[str]:
    """Has certificates reissued; those of Kubernetes at once, the others with the next `up`.

    Args:
        context: the site.
        names: as `list_certificates` has them, or `kubernetes` for those that kubeadm made.
        progress: receives status messages.

    Returns:
        Those that the next `up` brings.

    Raises:
        UserError: there is none of that name, or the last phase of the authority's replacement has not reached every
            host.
    """
    selected = list(dict.fromkeys(names))
    known = set(context.secrets.certificates()) | ({KUBERNETES} if context.site.cluster else set())
    for name in selected:
        if name not in known:
            raise UserError(
                f"site {context.site.name} has no certificate {name}",
                fix=f"one of {', '.join(sorted(known))}; or `all`",
            )
    if AUTHORITY in selected:
        _require_reached(context)
    later = [name for name in selected if name != KUBERNETES]
    for name in later:
        if name == AUTHORITY:
            context.secrets.replace_authority()
        else:
            context.secrets.forget_certificate(name)
    if KUBERNETES in selected:
        cluster_installer(context).renew_certificates(context, progress)
    return later


def authority_phase(context: SiteContext) -> str:
    """What the next `up` does about the authority, and what comes then; one sentence."""
    replacement = context.secrets.authority_replacement
    if replacement is None:
        return "the old one is trusted no longer; that was the last of three"
    if replacement[0] == AuthorityPhase.INTRODUCED:
        return "the new one is trusted beside the old one; then renew the authority again, 1 of 3"
    return "the new one signs every certificate; then renew the authority again, 2 of 3"


def _require_reached(context: SiteContext) -> None:
    """Refuses the next phase before an `up` of every layer brought the last one."""
    replacement = context.secrets.authority_replacement
    if replacement is None:
        return
    layers = {Layer.HOSTS, *([Layer.CLUSTER, Layer.PLATFORM] if context.site.cluster is not None else [])}
    if not _reached(context, layers, replacement[1]):
        raise UserError(
            f"authority of site {context.site.name}: not every host knows yet that it is being replaced",
            fix=f"`strata up {context.site.name}`, then the same command again",
        )


def _reached(context: SiteContext, layers: set[Layer], since: float) -> bool:
    """Whether an `up` of these layers ended since then."""
    ended = last_complete_run(context.paths, layers)
    return ended is not None and ended >= since
