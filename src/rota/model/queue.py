"""The parts of queue rows that leaders keep in memory. The spec stays in the database."""

from __future__ import annotations

import zlib

import msgspec

# Lane, minus priority, start-by (µs), cap (ms), id: a position among a tenant's tasks. A cursor for reading them has
# the rank in place of the lane, because lanes of one rank are served together (`decide.ready.order_of`).
OrderKey = tuple[int, int, int, int, int]

BEFORE_ALL: OrderKey = (-1, 0, 0, 0, 0)
NEVER_US = 1 << 62


class ReadyTask(msgspec.Struct, frozen=True, gc=False):
    id: int
    version: int
    tenant: int
    lane: int
    urgency: int
    start_by_us: int  # its place in the queue
    cap_ms: int
    shape: int
    work: int  # hash of (kind, name): tasks of equal work take about as long
    concurrency_key: str | None = None
    concurrency_limit: int = 1
    preemptible: bool = False
    avoid_node: int | None = None  # the node of its last failed attempt
    concurrency_global: bool = False  # the key is counted across pools
    leeway_ms: int | None = 0  # it is late so much after start_by; None: never, nobody gave it a tolerance

    @property
    def late_us(self) -> int:
        """From when on the task is late, by a tolerance that somebody gave."""
        return NEVER_US if self.leeway_ms is None else self.start_by_us + 1000 * self.leeway_ms

    @property
    def order(self) -> OrderKey:
        return (self.lane, self.urgency, self.start_by_us, self.cap_ms, self.id)


class AuthorisedAttempt(msgspec.Struct, frozen=True, gc=False):
    """An attempt that an earlier leader authorised, as a new leader finds it."""

    task: int
    attempt: int
    tenant: int
    shape: int
    node: int
    boot: int
    grace_ms: int
    work: int
    concurrency_key: str | None
    concurrency_limit: int
    cancel_requested: bool
    lane: int = 1
    cap_ms: int = 0
    preemptible: bool = False
    started_us: int = 0  # when it was authorised
    concurrency_global: bool = False


def work_hash(kind: int, name: str) -> int:
    """A signed 32-bit hash: tasks of one kind and name are expected to take about as long."""
    return zlib.crc32(f"{int(kind)}:{name}".encode()) - 2**31


def urgent_before_ms(tolerance_ms: int) -> int:
    """How long before its start-by time a ready task becomes urgent, as the SQL function `urgent_at` has it."""
    return max(5_000, tolerance_ms // 10)
