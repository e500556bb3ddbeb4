"""The parts of queue rows that leaders keep in memory. The spec stays in the database."""

from __future__ import annotations

import zlib

import msgspec

# lane, minus priority, start-by (µs), cap (ms), id: the order of a tenant's tasks, and the cursor for reading them.
OrderKey = tuple[int, int, int, int, int]

BEFORE_ALL: OrderKey = (-1, 0, 0, 0, 0)


class ReadyTask(msgspec.Struct, frozen=True, gc=False):
    id: int
    version: int
    tenant: int
    lane: int
    urgency: int
    start_by_us: int
    cap_ms: int
    shape: int
    work: int  # hash of (kind, name): tasks of equal work take about as long
    concurrency_key: str | None = None
    concurrency_limit: int = 1
    preemptible: bool = False
    avoid_node: int | None = None  # the node of its last failed attempt
    concurrency_global: bool = False  # the key is counted across pools

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
