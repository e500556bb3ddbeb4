"""An authority of one's own and the certificates of server nodes, as files in a folder. Needs cryptography.

`ca.pem` is for everybody who connects, `server.pem` and `server.key` are for server nodes, and whoever has `ca.key` can
pass for any of them. Keys are readable by their owner alone. Certificates obey what the strictest verification asks
for. The authority is not confined to names: those of later servers are not known, and only Rota trusts it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rota.client.transport.local_files import replaced_file

CA_CERT, CA_KEY, SERVER_CERT, SERVER_KEY = "ca.pem", "ca.key", "server.pem", "server.key"
ALWAYS = ("localhost", "127.0.0.1", "::1")  # a server node is also reached from its own machine

CA_DAYS = 3650
_EARLY = timedelta(hours=1)  # clocks of other machines may be behind
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


class Trouble(Exception):
    """What can't be done, in one sentence; `code` is the command's exit code."""

    def __init__(self, text: str, code: int = 4) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Made:
    """A certificate in a file."""

    path: str
    serial: str
    names: tuple[str, ...]
    since: datetime
    until: datetime


def init(folder: Path, names: Sequence[str], *, days: int, now: datetime, replace: bool) -> Made:
    """Makes the authority and a first certificate; returns the certificate."""
    there = [name for name in (CA_CERT, CA_KEY, SERVER_CERT, SERVER_KEY) if (folder / name).exists()]
    if there and not replace:
        raise Trouble(
            f"{folder} has {there[0]} already; `rota tls renew` makes a new certificate by the same authority, --force "
            "a new authority, which everybody who connects must then be given"
        )
    _check_days(days, now + timedelta(days=CA_DAYS), now)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _authority(key, now)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(folder / CA_KEY, _key_text(key), private=True)
        _write(folder / CA_CERT, _text(certificate))
    except OSError as error:
        raise _unwritable(folder, error) from None
    return _make(folder, (certificate, key), names, days=days, now=now)


def renew(folder: Path, names: Sequence[str], *, days: int, now: datetime) -> Made:
    """A new certificate and key by the authority in the folder; without names, for those of the present one."""
    authority = _read_authority(folder)
    until = authority[0].not_valid_after_utc
    if until <= now:
        raise Trouble(f"the authority {folder / CA_CERT} expired at {until:%Y-%m-%d}; `rota tls init` makes a new one")
    _check_days(days, until, now)
    wanted = tuple(names) or _names(_read_certificate(folder / SERVER_CERT))
    return _make(folder, authority, wanted, days=days, now=now)


def show(folder: Path) -> list[Made]:
    """The authority and the certificate, after a check that they belong together."""
    authority, server = _read_certificate(folder / CA_CERT), _read_certificate(folder / SERVER_CERT)
    try:
        server.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise Trouble(f"{folder / SERVER_CERT} is not by the authority {folder / CA_CERT}; `rota tls renew`") from None
    return [_made(folder / CA_CERT, authority), _made(folder / SERVER_CERT, server)]


def names_of(text: str) -> tuple[str, ...]:
    """The names in `a,b.example.org,10.0.0.1`; ValueError with a sentence if one can't be in a certificate."""
    found: dict[str, None] = {}
    for part in text.split(","):
        name = part.strip().strip("[]").lower().rstrip(".")
        if _as_address(name) is None and not _is_host(name):
            shown = part.strip()[:80]
            raise ValueError(
                f"{shown!r} is neither a host's name (a-z, 0-9, -, dots) nor an address; write a,b,10.0.0.1"
            )
        found[name] = None
    return tuple(found)


def _is_host(name: str) -> bool:
    labels = name.removeprefix("*.").split(".")
    if name.startswith("*.") and len(labels) < 2:
        return False  # no client accepts a certificate for all of *.org
    return len(name) <= 253 and all(_LABEL.fullmatch(label) for label in labels) and not labels[-1].isdigit()


def _as_address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


def _check_days(days: int, until: datetime, now: datetime) -> None:
    if now + timedelta(days=days) > until:
        left = (until - now).days
        raise Trouble(f"--days {days} is longer than the authority lasts, which is {left} more days", 2)


# ---- certificates ------------------------------------------------------------------------------------------------


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    # A name of its own, so that one file can hold an old and a new authority.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Rota authority {os.urandom(4).hex()}")])
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        _builder(name, name, key.public_key(), now, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(own, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
        .sign(key, hashes.SHA256())
    )


def _make(
    folder: Path,
    authority: tuple[x509.Certificate, ec.EllipticCurvePrivateKey],
    names: Sequence[str],
    *,
    days: int,
    now: datetime,
) -> Made:
    by, signing = authority
    key = ec.generate_private_key(ec.SECP256R1())
    all_names = tuple(dict.fromkeys((*names, *ALWAYS)))
    addresses = {name: _as_address(name) for name in all_names}
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, all_names[0][:64])])
    certificate = (
        _builder(subject, by.subject, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                by.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
            ),
            critical=False,
        )
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName(name) if at is None else x509.IPAddress(at) for name, at in addresses.items()]
            ),
            critical=False,
        )
        .sign(signing, hashes.SHA256())
    )
    try:
        # A server that looks between the two keeps the pair that it has, and looks again.
        _write(folder / SERVER_KEY, _key_text(key), private=True)
        _write(folder / SERVER_CERT, _text(certificate))
    except OSError as error:
        raise _unwritable(folder, error) from None
    return _made(folder / SERVER_CERT, certificate)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


# ---- files -------------------------------------------------------------------------------------------------------


def _read_authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate, path = _read_certificate(folder / CA_CERT), folder / CA_KEY
    try:
        key = serialization.load_pem_private_key(_read(path), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Trouble(f"{path} is no private key that `rota tls init` made") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise Trouble(f"{path} is not the key of {folder / CA_CERT}")
    return certificate, key


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError:
        raise Trouble(f"{path} is no certificate in PEM format") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise Trouble(f"there is no {path}; `rota tls init --name HOST` makes an authority", 3) from None
    except OSError as error:
        raise Trouble(f"{path} can't be read: {error.strerror}") from None


def _made(path: Path, certificate: x509.Certificate) -> Made:
    return Made(
        str(path),
        f"{certificate.serial_number:x}",
        _names(certificate),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return (*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress)))


def _text(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_text(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes, *, private: bool = False) -> None:
    """A key keeps its owner and group if it is replaced by root, as a server node of another user reads it."""
    before = os.stat(path) if private and path.exists() else None
    with replaced_file(path, private=private) as file:
        file.write(content)
        if before is not None:
            if os.geteuid() == 0:
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode) & 0o640)
        file.flush()
        os.fsync(file.fileno())


def _unwritable(folder: Path, error: OSError) -> Trouble:
    return Trouble(f"{folder} can't be written: {error.strerror}")
