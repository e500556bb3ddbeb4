"""Resolves a host name and judges its addresses: may this machine connect there for a tenant?

Webhooks and image pulls use it. A name is resolved for every connection, all of its addresses are judged, and the
connection goes to a judged address: a name that resolves differently a moment later has no effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

RESOLVE_SECONDS = 5.0
MOST_LOOK_UPS = 64  # at once, those included for whose answer nobody waits any more

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
            return await _look_up(host, port)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise Unresolved(f"{host} can't be resolved: {error}") from None


_look_ups = threading.BoundedSemaphore(MOST_LOOK_UPS)


async def _look_up(host: str, port: int) -> list[str]:
    """In a thread that nobody waits for.

    A resolver may need minutes for names that tenants made up. The few threads of an event loop would then have none
    left for other look-ups, and a process could not end before they do.
    """
    if not _look_ups.acquire(blocking=False):
        raise Unresolved(f"{host} can't be resolved: too many names are being looked up")
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def tell(found: list[str] | BaseException) -> None:
        if answer.done():
            return
        if isinstance(found, BaseException):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def ask() -> None:
        found: list[str] | BaseException
        try:
            found = _addresses(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            found = error
        finally:
            _look_ups.release()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, found)

    threading.Thread(target=ask, name=f"look up {host[:40]}", daemon=True).start()
    return await answer


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
