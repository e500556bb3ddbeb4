"""A control connection between a server and an agent: two ordered streams that can be slow, clogged or cut.

A cut delivers a random prefix of the data in transit. Each end learns of it later, or never, as with a half-open TCP
connection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rota.simulate.world.kernel import Kernel, Process

BROKEN = 1006  # the close code of a connection that ended without a goodbye


@dataclass(slots=True, eq=False)
class End:
    """One end of a link."""

    link: Link
    process: Process
    on_receive: Callable[[bytes], None] | None = None
    on_close: Callable[[int], None] | None = None
    clogged_until: float = 0.0  # nothing arrives here before
    last_arrival: float = 0.0
    closed: bool = False


class Link:
    def __init__(self, kernel: Kernel, server: Process, agent: Process, latency: float) -> None:
        self.kernel = kernel
        self.latency = latency
        self.server = End(self, server)
        self.agent = End(self, agent)
        self.cut_at: float | None = None

    def other(self, end: End) -> End:
        return self.agent if end is self.server else self.server

    def send(self, sender: End, data: bytes) -> None:
        if sender.closed or self.cut_at is not None:
            return
        self._travel(self.other(sender), self._deliver, data)

    def _travel(self, to: End, action: Callable[..., None], argument: bytes | int) -> None:
        kernel = self.kernel
        arrival = max(to.last_arrival, to.clogged_until, kernel.now + self.latency * kernel.random.uniform(0.5, 2.0))
        to.last_arrival = arrival
        kernel.at(arrival, action, to, argument)

    def _deliver(self, to: End, data: bytes) -> None:
        if self.cut_at is not None and self.kernel.now > self.cut_at:
            return
        if to.clogged_until > self.kernel.now:  # clogged while in transit; later data stays behind it
            to.last_arrival = max(to.last_arrival, to.clogged_until)
            self.kernel.at(to.clogged_until, self._deliver, to, data)
            return
        to.process.post(self._arrived, to, data)

    def _arrived(self, to: End, data: bytes) -> None:
        if not to.closed and to.on_receive is not None:
            to.on_receive(data)

    def close(self, sender: End, code: int) -> None:
        """Closes in order, after the data sent before."""
        if sender.closed:
            return
        sender.closed = True
        if self.cut_at is None:
            self._travel(self.other(sender), self._goodbye, code)

    def _goodbye(self, to: End, code: int) -> None:
        if self.cut_at is None or self.kernel.now <= self.cut_at:
            to.process.post(self._hang_up, to, code)

    def cut(self) -> None:
        """Breaks the link, losing part of the data in transit."""
        if self.cut_at is not None:
            return
        chance = self.kernel.random
        self.cut_at = self.kernel.now + chance.choice((0.0, chance.uniform(0.0, self.latency * 2)))
        for end in (self.server, self.agent):
            if chance.random() < 0.7:
                self.kernel.after(chance.uniform(0.0, 2.0), end.process.post, self._hang_up, end, BROKEN)

    def end_died(self, end: End) -> None:
        """The process at this end died; its kernel closes the connection unless the link is cut."""
        end.closed = True
        if self.cut_at is None:
            self._travel(self.other(end), self._goodbye, BROKEN)

    def _hang_up(self, end: End, code: int) -> None:
        if not end.closed:
            end.closed = True
            if end.on_close is not None:
                end.on_close(code)
