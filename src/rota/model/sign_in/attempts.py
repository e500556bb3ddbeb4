"""How many attempts to sign in there may be: for each account, each address, and in all. Pure.

Addresses and the whole have a rate (GCRA, a bucket that leaks). An account allows a few failures, then each further one
makes the wait longer. No account is ever locked for good, and a browser that signed in before has a count of its own: a
stranger who fails on purpose does not keep the user out of it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address, ip_network

FREE_FAILURES = 5
# After the last free failure, and after each one that follows; then always the last.
WAIT_SECONDS = (60, 120, 240, 480, 900)
FORGET_SECONDS = 3_600  # a failure counts no more after the account could be tried for this long


@dataclass(frozen=True, slots=True)
class Rate:
    per_minute: int

    @property
    def seconds_each(self) -> float:
        return 60 / self.per_minute

    @property
    def burst_seconds(self) -> float:
        """How far ahead of its rate it may be."""
        return 60 - self.seconds_each


OF_ADDRESS = Rate(20)
OF_ALL = Rate(200)
ALL = "all"


def account_key(name: str) -> str:
    """By what was typed, so that names which are nobody's are counted as all others."""
    return f"account:{hashlib.sha256(name.casefold().encode(errors='replace')).hexdigest()[:32]}"


def device_key(device: str) -> str:
    return f"device:{device}"


def address_key(address: str | None) -> str:
    """One count for the network of a provider's customer: /24, or /64 of IPv6."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return "address:unknown"
    plain = getattr(found, "ipv4_mapped", None) or found
    bits = 24 if isinstance(plain, IPv4Address) else 64
    return f"address:{ip_network((plain, bits), strict=False)}"
