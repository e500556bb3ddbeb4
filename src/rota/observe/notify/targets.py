"""Checks the target of a webhook: only public addresses are allowed.

A name is resolved for every delivery, all of its addresses are checked, and the connection goes to a checked address,
so a name that resolves differently a moment later has no effect.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

MOST_URL = 2_000
RESOLVE_SECONDS = 5.0
PORTS = {"http": 80, "https": 443}

Resolve = Callable[[str, int], Awaitable[list[str]]]


class ForbiddenTarget(Exception):
    """The text names what would be allowed."""


class Unresolved(Exception):
    """The name can't be resolved right now."""


@dataclass(frozen=True, slots=True)
class Target:
    """A checked target: connect to `address`, send `host` as the host name."""

    scheme: str
    host: str
    port: int
    address: str
    path: str

    @property
    def pinned_url(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{address}:{self.port}{self.path}"

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


async def resolve(host: str, port: int) -> list[str]:
    """The system's resolver."""
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise Unresolved(f"{host} can't be resolved: {error}") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def judge(url: str, *, private: bool, resolving: Resolve) -> Target:
    """The checked target of the URL. `private`: the operator allows any address and port."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ForbiddenTarget(f"{url[:80]!r} is not a URL of the form https://host/path") from None
    host = (parts.hostname or "").rstrip(".")
    if len(url) > MOST_URL or parts.scheme not in PORTS or not host or any(ord(c) <= 32 or ord(c) == 127 for c in url):
        raise ForbiddenTarget(f"{url[:80]!r} is not a URL of the form https://host/path")
    if parts.username is not None or parts.password is not None:
        raise ForbiddenTarget("a URL with a user name or password is not allowed")
    port = port if port is not None else PORTS[parts.scheme]
    if port not in PORTS.values() and not private:
        raise ForbiddenTarget(f"port {port} is not allowed; use 443 or 80")
    addresses = await resolving(host, port)
    if not addresses:
        raise Unresolved(f"{host} has no address")
    if not private and not all(map(is_public, addresses)):
        raise ForbiddenTarget(f"{host} is not a public address")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port, addresses[0].partition("%")[0], path)


_TUNNELS = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")))


def is_public(text: str) -> bool:
    """Whether the address is on the public internet. Tunnels of IPv4 in IPv6 are not."""
    if "%" in text:
        return False
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(str(address.ipv4_mapped))
        if any(address in network for network in _TUNNELS):
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved
