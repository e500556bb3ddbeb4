"""Open HTTP connections: how many there are, from where, and which of them only wait for a request.

When there is no room, the connection that has waited longest for a request makes room, because its client can connect
again. One that is being answered is never ended for another: then the new one is refused.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from rota.settings import HttpLimits

log = structlog.get_logger()

UNREAD_BYTES = 256 * 1024 * 1024  # of all answers together that nobody has read yet
_LOG_SECONDS = 60.0


class Evictable(Protocol):
    """A connection as this module sees it."""

    def end(self) -> None: ...


@dataclass(slots=True)
class _Address:
    connections: int = 0
    waiting: dict[Evictable, None] = field(default_factory=dict)  # oldest first


class Connections:
    """Of one server node. Each connection enters once and leaves once."""

    def __init__(self, limits: HttpLimits) -> None:
        self.limits = limits
        self.ended: dict[str, int] = {}  # how many connections were refused or ended, by reason
        self._address_of: dict[object, str] = {}  # of every open connection, by its transport
        self._addresses: dict[str, _Address] = {}
        self._waiting: dict[Evictable, str] = {}  # oldest first
        self._unread: dict[Evictable, int] = {}  # oldest first
        self._unread_bytes = 0
        self._logged_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._address_of)

    def enter(self, transport: object, address: str) -> str | None:
        """Counts a new connection; the reason if there is no room for it."""
        address = network_of(address)
        known = self._addresses.setdefault(address, _Address())
        fault = None
        if known.connections >= self.limits.connections_per_address and not self._evict(known.waiting):
            fault = f"this address has {known.connections} connections to this server node, which are all busy"
        elif len(self._address_of) >= self.limits.connections and not self._evict(self._waiting):
            fault = f"all {self.limits.connections} connections of this server node are busy"
        if fault is not None:
            self._forget_if_empty(address)
            return fault
        known.connections += 1
        self._address_of[transport] = address
        return None

    def leave(self, transport: object) -> None:
        """Safe to repeat: a WebSocket leaves for the HTTP connection that it was."""
        address = self._address_of.pop(transport, None)
        if address is not None:
            self._addresses[address].connections -= 1
            self._forget_if_empty(address)

    def waits(self, connection: Evictable, transport: object) -> None:
        """Nothing is being answered on this connection."""
        address = self._address_of.get(transport)
        if address is not None:
            self._waiting[connection] = address
            self._addresses[address].waiting[connection] = None

    def works(self, connection: Evictable) -> None:
        address = self._waiting.pop(connection, None)
        if address is not None:
            del self._addresses[address].waiting[connection]

    def unread(self, connection: Evictable, size: int) -> None:
        """An answer waits for its reader. The oldest of them end if they are too much together."""
        self.read(connection)
        self._unread[connection] = size
        self._unread_bytes += size
        while self._unread_bytes > UNREAD_BYTES and len(self._unread) > 1:
            oldest = next(iter(self._unread))
            self.read(oldest)
            self.note("unread")
            oldest.end()

    def read(self, connection: Evictable) -> None:
        self._unread_bytes -= self._unread.pop(connection, 0)

    def note(self, reason: str, now: float | None = None, **details: object) -> None:
        """Counts a connection that was ended or refused. With `now`, logs it, at most once a minute for a reason."""
        self.ended[reason] = self.ended.get(reason, 0) + 1
        if now is not None and now >= self._logged_at.get(reason, 0.0):
            self._logged_at[reason] = now + _LOG_SECONDS
            log.warning("http.connections_ended", reason=reason, so_far=self.ended[reason], **details)

    def _evict(self, waiting: dict[Evictable, str] | dict[Evictable, None]) -> bool:
        if not waiting:
            return False
        oldest = next(iter(waiting))
        self.works(oldest)
        self.note("evicted")
        oldest.end()
        return True

    def _forget_if_empty(self, address: str) -> None:
        if self._addresses[address].connections == 0:
            del self._addresses[address]


def network_of(address: str) -> str:
    """What counts as one address: of IPv6 a whole /64, which one machine usually has."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))
