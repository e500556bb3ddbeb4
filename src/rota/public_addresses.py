"""Resolves a host name and judges its addresses: may this machine connect there for a tenant?

Webhooks and image pulls use it. A name is resolved for every connection, all of its addresses are judged, and the
connection goes to a judged address: a name that resolves differently a moment later has no effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

RESOLVE_SECONDS = 5.0

Resolve = Callable[[str, int], Awaitable[list[str]]]


class ForbiddenTarget(Exception):
    """The text names what would be allowed."""


class Unresolved(Exception):
    """The name can't be resolved right now."""


async def resolve(host: str, port: int) -> list[str]:
    """The system's resolver, which is not asked about addresses: an answer to that never depends on its speed."""
    with contextlib.suppress(socket.gaierror, UnicodeError):  # a name
        return _addresses(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise Unresolved(f"{host} can't be resolved: {error}") from None
    return _addresses(found)


def _addresses(found: Sequence[tuple[Any, ...]]) -> list[str]:
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def judged_address(host: str, port: int, *, private: bool, resolving: Resolve) -> str:
    """The address to connect to. `private`: the operator allows any address."""
    addresses = await resolving(host, port)
    if not addresses:
        raise Unresolved(f"{host} has no address")
    if not private and not all(map(is_public, addresses)):
        raise ForbiddenTarget(f"{host} is not a public address")
    return addresses[0].partition("%")[0]


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
