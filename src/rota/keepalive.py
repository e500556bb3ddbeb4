"""TCP keepalive: after how much silence a connection's peer counts as dead, on sockets and in sessions of PostgreSQL.

Without it a connection whose peer vanished (no power, no network) stays open for two hours, and a peer that never
acknowledges what was sent for a quarter of an hour. Both ends must ask for it, because each notices only its own peer.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

DEAD_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Keepalive:
    """A peer that is silent for `idle_seconds` is asked every `interval_seconds`; `probes` unanswered ones: dead."""

    idle_seconds: int
    interval_seconds: int
    probes: int

    @classmethod
    def within(cls, seconds: float) -> Keepalive:
        """A dead peer is noticed within `seconds`, or 2 s if that is longer: the kernel counts whole seconds."""
        idle = max(1, int(seconds / 2))
        interval = max(1, int(seconds / 6))
        return cls(idle, interval, max(1, int((seconds - idle) / interval)))

    @property
    def total_seconds(self) -> int:
        return self.idle_seconds + self.interval_seconds * self.probes

    def apply(self, plug: socket.socket, *, unread_seconds: float | None = None) -> None:
        """Sets the options. A listening socket passes them on to the connections that it accepts.

        `unread_seconds`: for a peer that may live without reading what it is sent. The kernel does not tell such a
        peer from a dead one, so that a dead one too is noticed only then.
        """
        if plug.family == socket.AF_UNIX:
            return  # its peer is on this machine: the kernel tells when it ends
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_KEEPIDLE, self.idle_seconds),
            (socket.TCP_KEEPINTVL, self.interval_seconds),
            (socket.TCP_KEEPCNT, self.probes),
            (socket.TCP_USER_TIMEOUT, int((unread_seconds or self.total_seconds) * 1000)),  # for data under way
        ):
            plug.setsockopt(socket.IPPROTO_TCP, option, value)

    def session_settings(self) -> dict[str, str]:
        """The same for PostgreSQL's end of a connection."""
        return {
            "tcp_keepalives_idle": str(self.idle_seconds),
            "tcp_keepalives_interval": str(self.interval_seconds),
            "tcp_keepalives_count": str(self.probes),
            "tcp_user_timeout": str(self.total_seconds * 1000),
            # Also while a statement runs or waits for a lock, when the session reads nothing from its client.
            "client_connection_check_interval": str(self.idle_seconds * 1000),
        }


DEFAULT = Keepalive.within(DEAD_SECONDS)
