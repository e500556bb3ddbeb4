"""TCP ports of this node, really reserved: each belongs to at most one running attempt.

The agent owns a range. A port is given out only after binding it showed that it is free at that moment; busy ones are
skipped. Ports are given out in turn, so that a released one stays unused as long as possible: connections to its last
owner die out meanwhile. Agents that share a machine need ranges of their own.
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Callable, Iterable

DEFAULT_PORTS = range(30_000, 31_000)  # below where Linux takes ports for outgoing connections

_RANGE = re.compile(r"^(\d{1,5})-(\d{1,5})\Z", re.ASCII)


def parse_ports(text: str) -> range:
    """`30000-30999`, both ends included."""
    match = _RANGE.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a range of ports; write 30000-30999")
    first, last = int(match[1]), int(match[2])
    if not 1024 <= first <= last <= 65535:
        raise ValueError(f"{text!r}: ports go from 1024 to 65535, the lower one first")
    return range(first, last + 1)


class Ports:
    def __init__(self, owned: range, *, is_free: Callable[[int], bool] | None = None) -> None:
        self._owned = owned
        self._is_free = is_free or nobody_has
        self._given: set[int] = set()
        self._next = 0

    def take(self, amount: int) -> tuple[int, ...] | None:
        """That many free ports; None when there are too few."""
        ports: list[int] = []
        for step in range(len(self._owned)):
            if len(ports) == amount:
                break
            port = self._owned[(self._next + step) % len(self._owned)]
            if port not in self._given and self._is_free(port):
                ports.append(port)
        if len(ports) < amount:
            return None
        self._given.update(ports)
        self._next = self._owned.index(ports[-1]) + 1
        return tuple(ports)

    def give_back(self, ports: Iterable[int]) -> None:
        self._given.difference_update(ports)


def nobody_has(port: int) -> bool:
    """Whether it could be listened on now, on every address of this machine."""
    return _can_bind(socket.AF_INET, "", port) and (not socket.has_ipv6 or _can_bind(socket.AF_INET6, "::", port))


def _can_bind(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        probe = socket.socket(family)
    except OSError:
        return True  # this kernel has no such addresses, and so no listener on them
    with probe:
        # As servers do: connections that have just died are no obstacle, a listener is.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.errno == errno.EADDRNOTAVAIL  # IPv6 is switched off
    return True
