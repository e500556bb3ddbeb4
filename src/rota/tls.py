"""TLS of outgoing connections: whom a process trusts, and the rule that no credential travels in clear.

The one place that makes contexts, for clients, agents and server nodes. `ROTA_CA` names a file of certificates, or
holds the certificates themselves, as running tasks get them: then these authorities are trusted and no other. Without
it the machine's authorities are. The file is read again when it has changed, at the next connection, so that an
authority is replaced without a restart. Nothing is read before the first connection that needs it, because all
authorities of a machine take 50 ms. It must never switch the verification off.
"""

from __future__ import annotations

import base64
import binascii
import functools
import importlib
import ipaddress
import logging
import os
import re
import ssl
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CA_VARIABLE = "ROTA_CA"
CLEAR_VARIABLE = "ROTA_INSECURE_HTTP"

MOST_TASK_BYTES = 64 * 1024  # of certificates that tasks are given: a variable may have 128 KiB
_MOST_FILE_BYTES = 4 * 1024 * 1024

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_CERTIFICATE = re.compile(f"{_BEGIN}(.*?){_END}", re.DOTALL)
_NOT_TRUSTED = (18, 19, 20, 21)  # OpenSSL's X509_V_ERR_*: no way from the certificate to an authority
_NOT_YET_VALID, _EXPIRED, _OTHER_NAME, _OTHER_ADDRESS = 9, 10, 62, 64

log = logging.getLogger(__name__)


class BadAuthorities(OSError):
    """The certificates of `ROTA_CA` can't be used; the message says why. To HTTP clients a failure to connect."""


def trusted(ca: str | None = None) -> ssl.SSLContext:
    """For connections to server nodes. `ca`: as `ROTA_CA`, instead of the variable."""
    return _trusting(os.environ.get(CA_VARIABLE, "") if ca is None else ca)


def trusted_at(url: str) -> ssl.SSLContext | None:
    """For a WebSocket or a bare connection; None: the address is one without TLS."""
    return trusted() if url.startswith(("https://", "wss://")) else None


def check_authorities(ca: str) -> None:
    """Raises BadAuthorities if it names no certificates that can be used."""
    if ca:
        _context_of(_certificates(ca), ca)


def for_tasks(servers: Iterable[str]) -> dict[str, str]:
    """The variables with which a task reaches the same servers: it sees no file of this machine."""
    servers = tuple(servers)
    if any(is_clear(server) for server in servers):
        return {CLEAR_VARIABLE: "1"}  # whoever started this process has allowed it
    ca = os.environ.get(CA_VARIABLE, "")
    if not ca or not any(server.startswith("https://") for server in servers):
        return {}
    try:
        one_line = " ".join(f"{_BEGIN} {base64.b64encode(each).decode()} {_END}" for each in _certificates(ca))
    except BadAuthorities:
        return {}  # being replaced; connections of this process keep the last good ones
    return {CA_VARIABLE: one_line} if len(one_line) <= MOST_TASK_BYTES else {}


# ---- credentials in clear ----------------------------------------------------------------------------------------


def is_loopback(host: str) -> bool:
    """Whether what is sent to this host stays on this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False  # a name may mean any machine
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def is_clear(url: str) -> bool:
    """Whether others could read on the way what is sent there."""
    return url.startswith("http://") and not is_loopback(urlsplit(url).hostname or "")


def allows_clear(environment: Mapping[str, str] = os.environ) -> bool:
    return environment.get(CLEAR_VARIABLE) == "1"


def clear_fault(servers: Iterable[str], environment: Mapping[str, str] = os.environ) -> str | None:
    """Why no token may be sent to these addresses; None: it may."""
    clear = next((server for server in servers if is_clear(server)), None)
    if clear is None or allows_clear(environment):
        return None
    return (
        f"{clear} is not encrypted, so others on the network could read the token; use https "
        f"(`rota tls init` on the servers makes certificates), or set {CLEAR_VARIABLE}=1 if you trust the network"
    )


# ---- why a connection failed -------------------------------------------------------------------------------------


def explain(error: BaseException, url: str) -> str | None:
    """What is wrong with the certificate of that address, or with its encryption; None: the trouble is another one."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, ssl.SSLError | BadAuthorities):
        found = found.__cause__ or found.__context__
    if isinstance(found, BadAuthorities):
        return str(found)
    if isinstance(found, ssl.SSLCertVerificationError):
        return _certificate_fault(found, urlsplit(url).hostname or url)
    if isinstance(found, ssl.SSLError) and found.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "it does not speak TLS; is its address http?"
    return None


def _certificate_fault(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code == _EXPIRED:
        return "its certificate has expired; `rota tls renew` on the server makes a new one"
    if error.verify_code == _NOT_YET_VALID:
        return "its certificate is not valid yet; compare the clocks of both machines"
    if error.verify_code in (_OTHER_NAME, _OTHER_ADDRESS):
        return f"its certificate is not for the name {host}; use a name that the certificate has"
    if error.verify_code in _NOT_TRUSTED:
        return (
            f"its certificate is of no authority that is trusted here; name the file of its authority in {CA_VARIABLE}"
        )
    return f"its certificate is not accepted: {error.verify_message}"


# ---- contexts ----------------------------------------------------------------------------------------------------


class _Trusting(ssl.SSLContext):
    """Stands for the context of the moment, so that connections opened after a change of the file obey it."""

    def __new__(cls, ca: str) -> _Trusting:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, ca: str) -> None:
        self._ca = ca
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None  # the file that `_present` was made from
        self._complained: str | None = None
        self._present: ssl.SSLContext | None = None

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        return self._now().wrap_socket(*arguments, **named)

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        return self._now().wrap_bio(*arguments, **named)

    def _now(self) -> ssl.SSLContext:
        with self._lock:
            if not self._ca:
                self._present = self._present or _of_this_machine()
                return self._present
            try:
                seen = _identity(self._ca)
                if self._present is None or seen != self._seen:
                    self._present, self._seen = _context_of(_certificates(self._ca), self._ca), seen
                    self._complained = None
            except BadAuthorities as error:
                if self._present is None:
                    raise
                if str(error) != self._complained:  # once, not at every connection
                    self._complained = str(error)
                    log.warning("%s; the certificates that it had before stay trusted", error)
            return self._present


@functools.lru_cache(maxsize=16)
def _trusting(ca: str) -> _Trusting:
    return _Trusting(ca)


def _of_this_machine() -> ssl.SSLContext:
    paths = ssl.get_default_verify_paths()
    files: tuple[str | None, ...] = (paths.cafile, paths.capath)
    if files == (None, None):
        # A machine without authorities of its own, such as a small container: those that httpx brings.
        return _for_http(ssl.create_default_context(cafile=importlib.import_module("certifi").where()))
    return _for_http(ssl.create_default_context())


def _context_of(certificates: list[bytes], ca: str) -> ssl.SSLContext:
    try:
        return _for_http(ssl.create_default_context(cadata=b"".join(certificates)))
    except ssl.SSLError as error:
        raise BadAuthorities(f"{_named(ca)}: a certificate in it is damaged ({error.reason or error})") from None


def _for_http(context: ssl.SSLContext) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _certificates(ca: str) -> list[bytes]:
    text = ca if _is_text(ca) else _read(ca)
    try:
        found = [base64.b64decode("".join(each.split()), validate=True) for each in _CERTIFICATE.findall(text)]
    except binascii.Error:
        raise BadAuthorities(f"{_named(ca)}: a certificate in it is damaged (not base64)") from None
    if not found:
        raise BadAuthorities(f"{_named(ca)}: there is no certificate in it ({_BEGIN})")
    return found


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_FILE_BYTES + 1)
    except OSError as error:
        raise BadAuthorities(f"{_named(path)}: {error.strerror}") from None
    if len(content) > _MOST_FILE_BYTES:
        raise BadAuthorities(f"{_named(path)}: it has more than {_MOST_FILE_BYTES} bytes")
    return content.decode("latin-1")  # comments between certificates may be in any encoding


def _identity(ca: str) -> tuple[int, ...]:
    if _is_text(ca):
        return ()
    try:
        found = os.stat(ca)
    except (OSError, ValueError) as error:
        raise BadAuthorities(f"{_named(ca)}: {getattr(error, 'strerror', None) or error}") from None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _is_text(ca: str) -> bool:
    return ca.lstrip().startswith(_BEGIN)


def _named(ca: str) -> str:
    return CA_VARIABLE if _is_text(ca) else f"{CA_VARIABLE} {ca[:200]}"
