"""The rules of `rota login`: what a program may ask for, how its codes look, and where an answer may be sent. Pure.

A login ends in a token of the user who allowed it. In a browser on the program's own machine its code comes back by a
redirect (RFC 8252, with PKCE, RFC 7636). With a device code (RFC 8628) somebody types a short code on any machine.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from rota.model.errors import FaultList
from rota.model.sign_in.attempts import Rate
from rota.model.units import milliseconds_of

CODE_LASTS = timedelta(seconds=60)  # from the approval in a browser to the exchange
DEVICE_LASTS = timedelta(minutes=10)  # from the start to the exchange
POLL_SECONDS = 5
SLOWER_SECONDS = 5  # added for who asks too often
LONGEST_POLL_SECONDS = 60
USUAL_LIFE = "30d"
LONGEST_LIFE = timedelta(days=366)

# Codes that are typed, right or wrong. 20 letters to the power of 8 are too many to guess at this rate.
TRIES_OF_USER = Rate(10)
TRIES_OF_NETWORK = Rate(60)

# Programs that wait for their user.
MOST_PENDING = 5_000
MOST_PENDING_OF_NETWORK = 50

# No vowels, so that no code is a word; no letters or digits that look alike.
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_PREFIX = "cli-"
_MACHINE = re.compile(r"[A-Za-z0-9._@+-]{1,90}", re.ASCII)
_TENANT = re.compile(r"[a-z][a-z0-9-]{0,39}", re.ASCII)
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}", re.ASCII)
_STATE = re.compile(r"[A-Za-z0-9._~-]{16,128}", re.ASCII)
_LOOPBACK = re.compile(r"(http://(?:127\.0\.0\.1|\[::1\]):([1-9][0-9]{0,4}))/", re.ASCII)
_MOST_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the token shall be: its name is made of the machine's."""

    machine: str
    lasts: timedelta
    tenant: str | None

    @property
    def token_name(self) -> str:
        return _PREFIX + self.machine


def asked(machine: str | None, lasts: float | str | None, tenant: str | None, faults: FaultList) -> Asked:
    """What a program asks for, judged; the faults say what is wrong."""
    machine = machine or ""
    if not _MACHINE.fullmatch(machine):
        what = f"{machine[:_MOST_SHOWN]!r} is not a name: 1 to 90 letters, digits or . _ @ + -"
        faults.add("machine", "invalid-name", what)
    if tenant is not None and not _TENANT.fullmatch(tenant):
        faults.add("tenant", "unknown-tenant", f"there is no tenant {tenant[:_MOST_SHOWN]!r}")
    found = timedelta(0)
    try:
        found = timedelta(milliseconds=milliseconds_of(USUAL_LIFE if lasts is None else lasts))
        if not timedelta(minutes=1) <= found <= LONGEST_LIFE:
            faults.add("lasts", "out-of-range", f"lasts is a duration from 1m to {LONGEST_LIFE.days}d, such as 30d")
    except (ValueError, OverflowError) as error:
        faults.add("lasts", "out-of-range", str(error)[:200])
    return Asked(machine=machine, lasts=found, tenant=tenant)


# ---- in a browser ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """Where a browser takes the answer: an address of the machine that the browser runs on, and nothing else."""

    origin: str  # http://127.0.0.1:40123
    state: str
    challenge: str


def returned(
    address: str | None, state: str | None, challenge: str | None, method: str | None, faults: FaultList
) -> Return:
    match = _LOOPBACK.fullmatch(address or "")
    if match is None or int(match[2]) > 65535:
        right = "redirect_uri is http://127.0.0.1:PORT/ or http://[::1]:PORT/: a program on the browser's own machine"
        faults.add("redirect_uri", "invalid-address", f"{right}, not {(address or '')[:80]!r}")
    if not _STATE.fullmatch(state or ""):
        faults.add("state", "invalid-state", "state is 16 to 128 letters, digits or - . _ ~")
    if method != "S256" or not _CHALLENGE.fullmatch(challenge or ""):
        why = "code_challenge is a SHA-256 in base64url, 43 characters, and code_challenge_method is S256"
        faults.add("code_challenge", "invalid-challenge", why)
    return Return(origin=match[1] if match else "", state=state or "", challenge=challenge or "")


def challenge_of(verifier: str) -> str:
    """What a program shows of its secret beforehand (S256)."""
    digest = hashlib.sha256(verifier.encode(errors="replace")).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def is_verifier(text: str | None) -> bool:
    return bool(_VERIFIER.fullmatch(text or ""))


# ---- with a device code ---------------------------------------------------------------------------------------------


def new_user_code(choice: Callable[[Sequence[str]], str]) -> str:
    """`choice`: that of `secrets`."""
    letters = "".join(choice(_LETTERS) for _ in range(8))
    return f"{letters[:4]}-{letters[4:]}"


def user_code_of(typed: str) -> str | None:
    """As people type it: in any case of letters, with or without the hyphen. None: it can't be one."""
    letters = re.sub(r"[\s-]", "", typed[:60]).upper()
    if len(letters) != 8 or not set(letters) <= set(_LETTERS):
        return None
    return f"{letters[:4]}-{letters[4:]}"


def network_of(address: str | None) -> IPv4Network | IPv6Network | None:
    """What counts as one asker: an IPv4 address, or the 64 bits that one user of IPv6 has. None: of this machine."""
    if address is None:
        return None
    found = ip_address(address)
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return ip_network(found.ipv4_mapped)
        return ip_network((int(found) >> 64 << 64, 64))
    return ip_network(found)


# ---- exchange -------------------------------------------------------------------------------------------------------


class Verdict(enum.Enum):
    """What becomes of a code that a program sends for its token."""

    GOOD = enum.auto()
    UNKNOWN = enum.auto()
    EXPIRED = enum.auto()
    USED = enum.auto()  # for a second time: somebody else may have it
    WRONG_VERIFIER = enum.auto()  # whoever sends it did not begin the login
    PENDING = enum.auto()
    TOO_SOON = enum.auto()
    DENIED = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A stored login, in what decides about its code."""

    used: bool
    expired: bool
    allowed: bool | None  # None: nobody has decided
    too_soon: bool = False
    challenge: str | None = None  # None: with a device code


def judged(standing: Standing | None, verifier: str | None) -> Verdict:
    if standing is None:
        return Verdict.UNKNOWN
    if standing.used:
        return Verdict.USED
    if standing.expired:
        return Verdict.EXPIRED
    if standing.challenge is not None and not hmac.compare_digest(challenge_of(verifier or ""), standing.challenge):
        return Verdict.WRONG_VERIFIER
    if standing.allowed is None:
        return Verdict.TOO_SOON if standing.too_soon else Verdict.PENDING
    return Verdict.GOOD if standing.allowed else Verdict.DENIED
