"""Envelope encryption of secrets: AES-256-GCM twice, a random data key per value, wrapped by the operator's master key.

Pure: keys, values and randomness are arguments. Both ciphers authenticate the tenant and the name, so a sealed value
opens only for the secret it was sealed for. Rotation wraps the data key again and never touches the value.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12

RandomBytes = Callable[[int], bytes]


class CantOpen(Exception):
    """These keys can't open the sealed value; the message says why and reveals nothing of the value."""


class BadKeys(ValueError):
    """The text holds no usable master keys; the message names the line and the right form."""


@dataclass(frozen=True, slots=True)
class MasterKey:
    id: str  # derived from the key, reveals nothing of it
    cipher: AESGCM = field(repr=False)


@dataclass(frozen=True, slots=True)
class Keyring:
    """The operator's master keys: the first one seals, all of them open."""

    keys: tuple[MasterKey, ...]

    @property
    def first(self) -> MasterKey:
        return self.keys[0]

    def find(self, key_id: str) -> MasterKey | None:
        return next((key for key in self.keys if key.id == key_id), None)


@dataclass(frozen=True, slots=True)
class SecretName:
    """A secret's tenant and name. A sealed value is bound to both."""

    tenant: int
    name: str

    def bound(self, use: str) -> bytes:
        return f"rota secret {use}\0{self.tenant}\0{self.name}".encode()


@dataclass(frozen=True, slots=True)
class Sealed:
    key_id: str
    wrapped_key: bytes
    ciphertext: bytes


def seal(keyring: Keyring, secret_name: SecretName, value: str, random_bytes: RandomBytes) -> Sealed:
    data_key = random_bytes(KEY_BYTES)
    nonce = random_bytes(_NONCE_BYTES)
    ciphertext = nonce + AESGCM(data_key).encrypt(nonce, value.encode(), secret_name.bound("value"))
    return Sealed(keyring.first.id, _wrap(keyring.first, secret_name, data_key, random_bytes), ciphertext)


def unseal(keyring: Keyring, secret_name: SecretName, sealed: Sealed) -> str:
    data_key = _unwrap(keyring, secret_name, sealed)
    nonce, body = sealed.ciphertext[:_NONCE_BYTES], sealed.ciphertext[_NONCE_BYTES:]
    try:
        return AESGCM(data_key).decrypt(nonce, body, secret_name.bound("value")).decode()
    except (InvalidTag, ValueError):
        raise CantOpen("its row in the database was changed or damaged") from None


def rewrap(keyring: Keyring, secret_name: SecretName, sealed: Sealed, random_bytes: RandomBytes) -> Sealed:
    """The same value under the first key."""
    data_key = _unwrap(keyring, secret_name, sealed)
    return Sealed(keyring.first.id, _wrap(keyring.first, secret_name, data_key, random_bytes), sealed.ciphertext)


def _wrap(key: MasterKey, secret_name: SecretName, data_key: bytes, random_bytes: RandomBytes) -> bytes:
    nonce = random_bytes(_NONCE_BYTES)
    return nonce + key.cipher.encrypt(nonce, data_key, secret_name.bound("key"))


def _unwrap(keyring: Keyring, secret_name: SecretName, sealed: Sealed) -> bytes:
    key = keyring.find(sealed.key_id)
    if key is None:
        there = ", ".join(one.id for one in keyring.keys)
        raise CantOpen(f"it was encrypted with key {sealed.key_id}, and this server node has {there}")
    nonce, body = sealed.wrapped_key[:_NONCE_BYTES], sealed.wrapped_key[_NONCE_BYTES:]
    try:
        return key.cipher.decrypt(nonce, body, secret_name.bound("key"))
    except (InvalidTag, ValueError):
        raise CantOpen("its row in the database was changed, moved or damaged") from None


# ---- keys as text --------------------------------------------------------------------------------------------------


def new_key_text(random_bytes: RandomBytes) -> str:
    return base64.b64encode(random_bytes(KEY_BYTES)).decode()


def parse_keys(text: str) -> Keyring:
    """One base64 key a line; empty lines and # comments are ignored."""
    keys = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            keys.append(_key(line.strip(), number))
    if not keys:
        raise BadKeys("it holds no key; write one: head -c 32 /dev/urandom | base64")
    if len({key.id for key in keys}) != len(keys):
        raise BadKeys("it holds one key twice")
    return Keyring(tuple(keys))


def _key(text: str, line: int) -> MasterKey:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadKeys(f"line {line} is not base64") from None
    if len(raw) != KEY_BYTES:
        raise BadKeys(f"line {line} holds {len(raw)} bytes; a key has {KEY_BYTES}")
    return MasterKey(hashlib.sha256(b"rota master key\0" + raw).hexdigest()[:16], AESGCM(raw))
