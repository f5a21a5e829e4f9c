"""Encryption of snapshots with age, to the operators' keys or with a passphrase; `age -d` opens them too."""

from __future__ import annotations

import os
from pathlib import Path

import pyrage

from strata.errors import UserError
from strata.models.state import SharedState
from strata.shared_state.bucket import damaged

IDENTITY_VARIABLE = "STRATA_STATE_IDENTITY"
PASSPHRASE_VARIABLE = "STRATA_STATE_PASSPHRASE"  # noqa: S105 -- a variable's name
IDENTITY_FILES = ("~/.config/strata/identity", "~/.ssh/id_ed25519", "~/.ssh/id_rsa")
HEADER = b"age-encryption.org/v1\n"
WITH_PASSPHRASE = b"\n-> scrypt "
NO_KEY = "No matching keys"


def seal(content: bytes, state: SharedState) -> bytes:
    """Encrypts a snapshot to the operators of the site file.

    Raises:
        UserError: a key is malformed, there is no passphrase, or the result does not open with this operator's own key.
    """
    if not state.operators:
        return pyrage.passphrase.encrypt(content, _passphrase())
    recipients = []
    for index, operator in enumerate(state.operators):
        kind = pyrage.x25519.Recipient if operator.key.startswith("age1") else pyrage.ssh.Recipient
        try:
            recipients.append(kind.from_str(operator.key))
        except pyrage.RecipientError as error:
            raise UserError(
                f"state.operators[{index}].key of {operator.name} is not a public key: {error}",
                fix="the line `age-keygen` prints as public key, or that of ~/.ssh/id_ed25519.pub",
            ) from error
    sealed = bytes(pyrage.encrypt(content, recipients))
    unseal(sealed, "the new snapshot")  # else this operator could not open it any more
    return sealed


def unseal(sealed: bytes, name: str) -> bytes:
    """Decrypts a snapshot.

    Args:
        sealed: the object.
        name: its URL, for errors.

    Raises:
        UserError: there is no key, or the snapshot is not encrypted to it, or it is damaged.
    """
    if WITH_PASSPHRASE in sealed[:100]:
        try:
            return bytes(pyrage.passphrase.decrypt(sealed, _passphrase()))
        except pyrage.DecryptError as error:
            raise UserError(
                f"shared state: {PASSPHRASE_VARIABLE} does not open {name}: {error}",
                fix="get the passphrase of the team",
            ) from error
    if not sealed.startswith(HEADER):
        raise damaged(name, "no age header")
    file = _identity_file()
    try:
        return bytes(pyrage.decrypt(sealed, _identities(file)))
    except pyrage.DecryptError as error:
        if NO_KEY not in str(error):
            raise damaged(name, str(error)) from error
        raise UserError(
            f"shared state: the key in {file} does not open {name}: {error}",
            fix="add its public key to state.operators in site.yaml and have an operator run `strata state reencrypt`",
        ) from error


def _passphrase() -> str:
    if value := os.environ.get(PASSPHRASE_VARIABLE):
        return value
    raise UserError(
        f"shared state: environment variable {PASSPHRASE_VARIABLE} is not set",
        fix="set it to the passphrase of the team, or list keys in state.operators of site.yaml",
    )


def _identity_file() -> Path:
    named = os.environ.get(IDENTITY_VARIABLE)
    candidates = [Path(name).expanduser() for name in ([named] if named else IDENTITY_FILES)]
    for file in candidates:
        if file.is_file():
            return file
    raise UserError(
        f"shared state: there is no private key in {', '.join(map(str, candidates))}",
        fix=f"`age-keygen -o {candidates[0]}` and add the public key to state.operators, or set {IDENTITY_VARIABLE}",
    )


def _identities(file: Path) -> list[pyrage.x25519.Identity | pyrage.ssh.Identity]:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UserError(
            f"shared state: {file} cannot be read: {error.strerror}", fix=f"chmod, or set {IDENTITY_VARIABLE}"
        ) from error
    try:
        if content.startswith(b"-----BEGIN"):
            return [pyrage.ssh.Identity.from_buffer(content)]
        lines = [line.strip() for line in content.decode(errors="replace").splitlines()]
        return [pyrage.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except pyrage.IdentityError as error:
        raise UserError(
            f"shared state: {file} is not an age key or an SSH key without passphrase: {error}",
            fix=f"`age-keygen` makes one; set {IDENTITY_VARIABLE} to its file",
        ) from error
