"""The rows of the modelled database as plain records. `statements/` changes them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from rota.model.queue import urgent_before_ms

BLOCKED, DELAYED, READY, RUNNING, PAUSED = 1, 2, 3, 4, 5
DONE, FAILED, CANCELLED, EXPIRED = 10, 11, 12, 14
CLOCK_BASE_US = 1_790_000_000_000_000  # the database's clock at the start
LONGEST_CAP_SECONDS = 6 * 86_400  # of every tenant's plan


class Row(dict[str, Any]):
    """A row by column name. An unknown column reads as null."""

    def __missing__(self, name: str) -> None:
        return None


@dataclass(slots=True, kw_only=True)
class Task:
    """A row of `tasks`, and the drawn behaviour of its attempts."""

    id: int
    tenant: int
    pool: int
    key: str | None  # idempotency key
    after: tuple[int, ...]
    upstream: int
    attempts: int
    backoff_ms: int
    backoff_limit_ms: int
    cap_ms: int
    concurrency_key: str | None
    concurrency_limit: int
    concurrency_global: bool
    lane: int
    preemptible: bool
    priority: int
    not_before_us: int | None
    shape: int
    tolerance_ms: int
    tolerance_given: bool
    work: int
    run_seconds: float
    outcomes: list[str]  # of its attempts in order; the last one repeats
    expires: bool = False  # dropped if it cannot start in time


@dataclass(slots=True)
class Queued:
    """A row of `queue`."""

    task: Task
    state: int
    wake_us: int | None
    start_by_us: int
    lane: int
    id: int
    pool: int
    tenant: int
    version: int = 0
    attempt: int = 0
    used: int = 0
    losses: int = 0
    node: int | None = None
    boot: int | None = None
    epoch: int | None = None
    grace_ms: int = 0
    started_us: int = 0
    cancel_requested: bool = False
    pause_requested: bool = False
    paused_state: int = 0
    paused_us: int = 0
    expires: bool = False

    def too_late(self, now_us: int) -> bool:
        return self.expires and self.start_by_us < now_us and self.attempt == 0

    def urgent_us(self) -> int | None:
        """When it becomes urgent, if it has a tolerance."""
        task = self.task
        return self.start_by_us - 1000 * urgent_before_ms(task.tolerance_ms) if task.tolerance_given else None

    def leeway_ms(self) -> int | None:
        """A task without a tolerance of its own is never late."""
        return 0 if self.task.tolerance_given else None

    def columns(self, names: str, **more: Any) -> Row:
        """These columns of `queue`, or of `tasks` where `queue` has none, and more."""
        pairs = ((name, getattr(self if name in _QUEUE_COLUMNS else self.task, name)) for name in names.split())
        return Row(pairs, **more)

    def order(self) -> tuple[int, int, int, int, int]:
        return (self.lane, -self.task.priority, self.start_by_us, self.task.cap_ms, self.id)


_QUEUE_COLUMNS = frozenset(field.name for field in fields(Queued))


@dataclass(slots=True)
class Edge:
    parent: int
    child: int
    child_pool: int
    upstream: int
    parent_state: int | None = None


@dataclass(slots=True)
class Lease:
    epoch: int = 0
    holder: object = None
    expires_us: int = 0
