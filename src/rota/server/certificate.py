"""The certificate of a server node: read and checked at start, and again whenever its files change.

A renewed certificate is for connections from then on; open ones go on with theirs. Files that can't be used change
nothing: the last good certificate stays, and the log says why. The key is in memory only, and in no message.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from rota.settings import Settings, SettingsError

log = structlog.get_logger()

LOOK_SECONDS = 2.0  # between two looks at the files
WARN_DAYS = 14.0  # before a certificate expires, the log warns once a day
_DAY_SECONDS = 86_400.0
_MOST_BYTES = 1024 * 1024

FileIdentity = tuple[int, int, int]  # inode, size and time of a file
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its key, as they were read together."""

    context: ssl.SSLContext
    serial: str
    names: tuple[str, ...]
    expires_at: float  # Unix time
    identity: tuple[FileIdentity, FileIdentity]


class Certificate:
    """Of one server node. Raises SettingsError if its files can't be used now."""

    def __init__(self, cert: Path, key: Path, clock: Clock = time.time) -> None:
        self._cert = cert
        self._key = key
        self._clock = clock
        self._pair = read_pair(cert, key, clock())
        self._warn_at = clock()
        self._fault: str | None = None  # why the files of now are not used
        self._is_fault_logged = False
        if _is_open(key):
            log.warning("tls.key_is_open", path=str(key), advice="every user of this machine can read it; chmod 600 it")

    @property
    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        return self._pair.context

    @property
    def pair(self) -> Pair:
        return self._pair

    def days_left(self) -> float:
        return (self._pair.expires_at - self._clock()) / _DAY_SECONDS

    async def run(self) -> None:
        while True:
            await asyncio.to_thread(self.look)
            self.warn_if_due()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Takes up files that have changed."""
        try:
            if (_identity("--tls-cert", self._cert), _identity("--tls-key", self._key)) == self._pair.identity:
                self._fault = None
                return
            pair = read_pair(self._cert, self._key, self._clock())
        except SettingsError as error:
            self._note(str(error))
            return
        self._pair, self._fault, self._warn_at = pair, None, self._clock()
        log.info("tls.certificate_read", serial=pair.serial, names=pair.names, days=round(self.days_left(), 1))

    def _note(self, fault: str) -> None:
        """Logs what is still so at the second look: at the first one, the files may be in the middle of a change."""
        if fault != self._fault:
            self._fault, self._is_fault_logged = fault, False
        elif not self._is_fault_logged:
            self._is_fault_logged = True
            log.error("tls.certificate_not_read", error=fault, kept=self._pair.serial)

    def warn_if_due(self) -> None:
        now, days = self._clock(), self.days_left()
        if days <= WARN_DAYS and now >= self._warn_at:
            self._warn_at = now + _DAY_SECONDS
            how = "rota tls renew, or replace the files; no restart is needed"
            log.warning("tls.certificate_expires", path=str(self._cert), days=round(days, 1), advice=how)


def open_certificate(settings: Settings) -> Certificate | None:
    """None: this node speaks plain HTTP."""
    if not settings.tls_cert and not settings.tls_key:
        return None
    if not settings.tls_cert or not settings.tls_key:
        given, other = ("--tls-cert", "--tls-key") if settings.tls_cert else ("--tls-key", "--tls-cert")
        raise SettingsError(f"{given} needs {other}: the certificate and its key belong together")
    return Certificate(Path(settings.tls_cert), Path(settings.tls_key))


def read_pair(cert: Path, key: Path, now: float) -> Pair:
    """Raises SettingsError, with the file and what is wrong with it."""
    identity = _identity("--tls-cert", cert), _identity("--tls-key", key)
    cert_text, key_text = _content("--tls-cert", cert), _content("--tls-key", key)
    try:
        chain = x509.load_pem_x509_certificates(cert_text)
    except ValueError:
        raise SettingsError(f"--tls-cert {cert}: it is no certificate in PEM format") from None
    own = chain[0]
    try:
        private = serialization.load_pem_private_key(key_text, None)
    except TypeError:
        raise SettingsError(f"--tls-key {key}: it has a passphrase, which a server can't ask for") from None
    except (ValueError, UnsupportedAlgorithm):
        raise SettingsError(f"--tls-key {key}: it is no private key in PEM format") from None
    if _public(private.public_key()) != _public(own.public_key()):
        raise SettingsError(f"--tls-key {key}: it is not the key of the certificate {cert}")
    until, since = own.not_valid_after_utc, own.not_valid_before_utc
    if until.timestamp() <= now:
        raise SettingsError(
            f"--tls-cert {cert}: it expired at {until:%Y-%m-%d %H:%M} UTC; `rota tls renew` makes a new one"
        )
    if since.timestamp() > now:
        present = datetime.fromtimestamp(now, UTC)
        raise SettingsError(
            f"--tls-cert {cert}: it is valid only from {since:%Y-%m-%d %H:%M} UTC on; this machine's clock says "
            f"{present:%Y-%m-%d %H:%M}"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert, key)
    except (ssl.SSLError, OSError) as error:
        raise SettingsError(f"--tls-cert {cert}: it can't be used with {key}: {error}") from None
    if identity != (_identity("--tls-cert", cert), _identity("--tls-key", key)):
        raise SettingsError(f"--tls-cert {cert}: it is being replaced")
    return Pair(context, f"{own.serial_number:x}", names_of(own), until.timestamp(), identity)


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return (*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress)))


def _public(key: object) -> bytes:
    encoded: bytes = key.public_bytes(  # type: ignore[attr-defined]  # each kind of key has it
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded


def _content(option: str, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except OSError as error:
        raise SettingsError(f"{option} {path}: {error.strerror}") from None


def _identity(option: str, path: Path) -> FileIdentity:
    try:
        found = os.stat(path)
    except OSError as error:
        raise SettingsError(f"{option} {path}: {error.strerror}") from None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _is_open(path: Path) -> bool:
    return bool(stat.S_IMODE(os.stat(path).st_mode) & 0o007)
