"""The encrypted store of what was generated for a site."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import string
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import yaml

from strata.errors import UserError
from strata.site.outputs import write_private
from strata.site.paths import REPOSITORY, SitePaths
from strata.site.secrets import pki

LETTERS_AND_DIGITS = string.ascii_letters + string.digits
SECRET_LENGTH = 44
"""Characters of a generated secret: 261 bits of entropy."""
MAXIMUM_BYTES = 64 * 1024
"""Of a secret that the operator provides; a chain of certificates with its key has a tenth of it."""


class AuthorityPhase(StrEnum):
    """How far the replacement of a site's authority is.

    Attributes:
        INTRODUCED: the old one signs, both are trusted.
        SIGNING: the new one signs, both are trusted.
    """

    INTRODUCED = "introduced"
    SIGNING = "signing"


class SecretDeclaration(Protocol):
    """One entry of `secrets:` in site.yaml."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def variable(self) -> str | None: ...
    @property
    def path(self) -> Path | None: ...


class SecretStore:
    """Secrets of one site.

    A secret that site.yaml declares comes from where it declares (environment variable or private file);
    any other is generated at first use and kept in an ansible-vault file, encrypted with the site's passphrase.

    Args:
        paths: the site's state directory.
        declarations: the entries of `secrets:` in site.yaml.
    """

    def __init__(self, paths: SitePaths, declarations: Sequence[SecretDeclaration] = ()) -> None:
        self._paths = paths
        self._declared = {d.name: d for d in declarations}
        self._cache: tuple[tuple[int, int], dict[str, Any]] | None = None

    @classmethod
    def open(cls, site: str, declarations: Sequence[SecretDeclaration] = ()) -> SecretStore:
        """The store of a site by name; makes the state directory and the passphrase where there are none."""
        paths = SitePaths(site).create()
        if not paths.passphrase_file.exists():
            write_private(paths.passphrase_file, new_secret() + "\n")
        require_private(paths.passphrase_file)
        return cls(paths, declarations)

    def get(self, name: str, make: Callable[[], str] | None = None) -> str:
        """The secret's value.

        Args:
            name: of the secret.
            make: makes the value at first use; default: a random text.

        Raises:
            UserError: the site declares where it comes from, and it is not there.
        """
        declaration = self._declared.get(name)
        if declaration is not None and declaration.source != "generated":
            return read_declared(declaration)
        value = self._read().get("secrets", {}).get(name)
        if value is None:
            with self._change() as content:
                value = content.setdefault("secrets", {}).setdefault(name, (make or new_secret)())
        return str(value)

    def peek(self, name: str) -> str | None:
        """A kept value, None where there is none; makes nothing."""
        value = self._read().get("secrets", {}).get(name)
        return None if value is None else str(value)

    def names(self) -> tuple[str, ...]:
        """Names of the generated secrets."""
        return tuple(sorted(self._read().get("secrets", {})))

    def rotate(self, name: str, *, keep: str | None = None, make: Callable[[], str] | None = None) -> None:
        """Gives a generated secret another value.

        Args:
            name: of the secret.
            keep: name under which the old value is kept, for those that must hold a while longer.
            make: makes the new value; default: a random text.

        Raises:
            UserError: the operator provides it, or there is none of that name.
        """
        declaration = self._declared.get(name)
        if declaration is not None and declaration.source != "generated":
            raise UserError(
                f"secret {name} comes from the {declaration.source}, Strata does not make it",
                fix="put another value there, then `strata up`",
            )
        with self._change() as content:
            kept = content.get("secrets", {})
            if name not in kept:
                raise UserError(f"there is no secret {name}", fix=f"one of {', '.join(sorted(kept)) or 'none yet'}")
            if keep is not None:
                kept[keep] = kept[name]
                # in whole seconds, as the end of a run
                content.setdefault("rotated", {})[name] = int(time.time())
            kept[name] = (make or new_secret)()

    def rotated(self, name: str) -> float | None:
        """When a secret whose old value is kept was last rotated, in seconds since 1970; None where it never was."""
        moment = self._read().get("rotated", {}).get(name)
        return None if moment is None else float(moment)

    def certificates(self) -> Mapping[str, str]:
        """PEM of each certificate by name, the authority's as `authority`."""
        content = self._read()
        by_name = {name: str(entry["certificate"]) for name, entry in sorted(content.get("certificates", {}).items())}
        if authority := content.get("authority"):
            by_name["authority"] = str(authority["certificate"])
        return by_name

    def forget_certificate(self, name: str) -> None:
        """Has a certificate reissued when it is next needed.

        Raises:
            UserError: there is none of that name.
        """
        with self._change() as content:
            kept = content.get("certificates", {})
            if name not in kept:
                raise UserError(
                    f"there is no certificate {name}", fix=f"one of {', '.join(sorted(kept)) or 'none yet'}"
                )
            del kept[name]

    def change_passphrase(self, passphrase: str) -> None:
        """Encrypts the store with another passphrase, which takes the place of the old one."""
        with self._change(passphrase):
            pass

    def known(self) -> Mapping[str, str]:
        """All generated secrets and private keys by name; for the tests that look for leaks."""
        content = self._read()
        values = dict(content.get("secrets", {}))
        values |= {f"certificate {n}": c["private_key"] for n, c in content.get("certificates", {}).items()}
        if authority := content.get("authority"):
            values["authority"] = authority["private_key"]
        if replacement := content.get("authority_replacement"):
            values["other authority"] = replacement["other"]["private_key"]
        return values

    @property
    def ca(self) -> str:
        """PEM of the site's CA, as of `ensure_ca`."""
        return self.ensure_ca()

    def ensure_ca(self) -> str:
        """Creates the site's CA where there is none, and writes its public part to `SitePaths.ca_file`.

        Returns:
            PEM; while the CA is being replaced two certificates, the one that signs first.
        """
        content = self._read()
        if "authority" not in content:
            with self._change() as content:
                if "authority" not in content:
                    content["authority"] = self._new_authority()
        text = str(content["authority"]["certificate"])
        if replacement := content.get("authority_replacement"):
            text += str(replacement["other"]["certificate"])
        write_private(self._paths.ca_file, text)
        return text

    def _new_authority(self) -> dict[str, str]:
        certificate, key = pki.create_authority(self._paths.site)
        return {"certificate": certificate, "private_key": key}

    @property
    def authority_replacement(self) -> tuple[AuthorityPhase, float] | None:
        """How far the replacement of the authority is, and since when in seconds since 1970; None without one."""
        replacement = self._read().get("authority_replacement")
        return (AuthorityPhase(replacement["phase"]), float(replacement["since"])) if replacement else None

    def replace_authority(self) -> AuthorityPhase | None:
        """Takes the replacement of the authority one phase further; each has to reach every host before the next.

        Returns:
            The phase that begins; None when the replacement has ended.
        """
        with self._change() as content:
            running = content.get("authority_replacement")
            if running is None:
                content.setdefault("authority", self._new_authority())
                phase, other = AuthorityPhase.INTRODUCED, self._new_authority()
            elif running["phase"] == AuthorityPhase.INTRODUCED:
                phase, other = AuthorityPhase.SIGNING, content["authority"]
                content["authority"] = running["other"]
            else:
                del content["authority_replacement"]
                return None
            content["authority_replacement"] = {"phase": phase.value, "since": time.time(), "other": other}
            return phase

    def certificate(
        self, name: str, dns_names: Sequence[str] = (), ip_addresses: Sequence[str] = ()
    ) -> pki.Certificate:
        """The certificate of that name; reissued when its names change or it is about to expire."""

        def valid(content: Mapping[str, Any]) -> Mapping[str, str] | None:
            kept: Mapping[str, str] | None = content.get("certificates", {}).get(name)
            if kept is None or kept["ca"] != content["authority"]["certificate"]:
                return None
            return kept if pki.covers(kept["certificate"], dns_names, ip_addresses) else None

        trusted = self.ca
        entry = valid(self._read())
        if entry is None:
            with self._change() as content:
                # another fork of Ansible may have issued it in between, for the other hosts that share it
                entry = valid(content)
                if entry is None:
                    authority = content["authority"]
                    signer = authority["certificate"]
                    issued = pki.issue(signer, authority["private_key"], name, dns_names, ip_addresses)
                    entry = {"certificate": issued.certificate, "private_key": issued.private_key, "ca": signer}
                    content.setdefault("certificates", {})[name] = entry
        return pki.Certificate(entry["certificate"], entry["private_key"], trusted)

    def _vault(self, passphrase: str | None = None) -> Any:
        from ansible.constants import DEFAULT_VAULT_IDENTITY  # noqa: PLC0415  # ansible: 0.1 s
        from ansible.parsing.vault import VaultLib, VaultSecret  # noqa: PLC0415  # ansible: 0.1 s

        texts = [passphrase] if passphrase else [self._paths.passphrase_file.read_text().strip()]
        if passphrase is None and self._paths.next_passphrase_file.exists():
            # a rotation under way: which of the two opens depends on how far it came
            texts.append(self._paths.next_passphrase_file.read_text().strip())
        return VaultLib([(DEFAULT_VAULT_IDENTITY, VaultSecret(text.encode())) for text in texts])

    def _read(self) -> dict[str, Any]:
        file = self._paths.secrets_file
        if not file.exists():
            return {}
        status = file.stat()
        key = (status.st_mtime_ns, status.st_ino)
        if self._cache is None or self._cache[0] != key:
            require_private(file)
            from ansible.errors import AnsibleError  # noqa: PLC0415  # ansible: 0.1 s

            try:
                text = self._vault().decrypt(file.read_bytes())
            except AnsibleError as error:
                raise UserError(
                    f"{file}: does not open with the passphrase in {self._paths.passphrase_file}",
                    fix="restore the passphrase that the site was created with, or `strata destroy` and `strata up`",
                ) from error
            self._cache = (key, yaml.safe_load(text) or {})
        return self._cache[1]

    @contextmanager
    def _change(self, passphrase: str | None = None) -> Iterator[dict[str, Any]]:
        """Read, change, write under a lock; Ansible's forks generate secrets at the same time.

        Args:
            passphrase: a new one.
        """
        lock = os.open(self._paths.root / ".secrets.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._cache = None
            content = self._read()
            yield content
            encrypted = self._vault(passphrase).encrypt(yaml.safe_dump(content)).decode() + "\n"
            write_private(self._paths.secrets_file, encrypted)
            if passphrase is not None:
                write_private(self._paths.passphrase_file, passphrase + "\n")
            self._cache = None
        finally:
            os.close(lock)


def new_secret() -> str:
    """Returns a random secret of letters and digits that begins with a letter.

    No shell, YAML parser, URL or command line takes it for an option, a number or a separator.
    """
    first = secrets.choice(string.ascii_letters)
    return first + "".join(secrets.choice(LETTERS_AND_DIGITS) for _ in range(SECRET_LENGTH - 1))


def require_private(file: Path) -> None:
    """Refuses a secret file that others may read.

    Raises:
        UserError: group or others have any right on it.
    """
    if stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise UserError(f"{file}: others than its owner may read it", fix=f"chmod 600 {file}")


def read_declared(declaration: SecretDeclaration) -> str:
    """The value of a secret that site.yaml declares to come from the environment or a file.

    Raises:
        UserError: not provided, readable by others, or inside the repository.
    """
    if declaration.source == "environment":
        variable = declaration.variable or f"STRATA_SECRET_{declaration.name.upper()}"
        value = os.environ.get(variable)
        if not value:
            raise UserError(
                f"secret {declaration.name}: environment variable {variable} is not set", fix=f"export {variable}=…"
            )
        return value
    try:
        file = (declaration.path or Path()).expanduser()
        if not file.is_file():
            raise UserError(
                f"secret {declaration.name}: there is no file {str(file)[:300]}",
                fix="write the secret to it, mode 0600",
            )
        if file.resolve().is_relative_to(REPOSITORY):
            raise UserError(
                f"secret {declaration.name}: {file} is inside the repository", fix="move it out of the checkout"
            )
        require_private(file)
        return _secret_text(declaration.name, file)
    except (OSError, RuntimeError) as error:  # RuntimeError: no such home directory, or links in a circle
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        path = str(declaration.path)[:300]
        raise UserError(f"secret {declaration.name}: {path}: {reason}", fix="name a readable file") from None


def _secret_text(name: str, file: Path) -> str:
    """What a secret's file holds, without blanks around it.

    Raises:
        UserError: nothing, no text, or far too much for a secret; never repeats the content.
    """
    with file.open("rb") as stream:
        content = stream.read(MAXIMUM_BYTES + 1)
    fix = "write the secret to it as UTF-8 text"
    if len(content) > MAXIMUM_BYTES:
        raise UserError(
            f"secret {name}: {file} has more than {MAXIMUM_BYTES:,} bytes", fix="name the secret's own file"
        )
    try:
        text = content.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise UserError(f"secret {name}: {file} is not UTF-8 text", fix=fix) from None
    if not text:
        raise UserError(f"secret {name}: {file} is empty", fix=fix)
    if any(ord(c) < 32 and c not in "\t\r\n" for c in text):
        raise UserError(f"secret {name}: {file} has control characters", fix=fix)
    return text
