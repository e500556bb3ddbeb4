"""The auditor's record of one task, its copy of the product's states, and `Violation`."""

from __future__ import annotations

from dataclasses import dataclass

BLOCKED, DELAYED, READY, RUNNING, PAUSED = 1, 2, 3, 4, 5
DONE, FAILED, CANCELLED, SKIPPED, EXPIRED = 10, 11, 12, 13, 14
NAMES = {
    1: "blocked", 2: "delayed", 3: "ready", 4: "running", 5: "paused",
    10: "done", 11: "failed", 12: "cancelled", 13: "skipped", 14: "expired",
}  # fmt: skip


class Violation(Exception):
    """A broken invariant: its number, and one sentence on what happened."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(invariant, message)
        self.invariant = invariant
        self.message = message


@dataclass(slots=True, kw_only=True)
class TaskRecord:
    """One task in the ledger."""

    tenant: int
    pool: int
    state: int
    parents: tuple[int, ...]
    upstream: int
    attempts: int
    backoff_ms: int
    backoff_limit_ms: int
    not_before_us: int | None
    wake_us: int | None
    concurrency_key: str | None
    concurrency_limit: int
    concurrency_global: bool  # the key is counted across pools
    shape: int
    lane: int
    start_by_us: int
    tolerance_ms: int | None  # None: not given
    expires: bool  # dropped if it cannot start in time
    version: int = 0
    attempt: int = 0
    counted: int = 0
    losses: int = 0
    boot: int = 0
    cancel_requested: bool = False
    cancel_acknowledged: bool = False
    pause_requested: bool = False  # while it runs: to be paused when the attempt ends
    held_state: int = 0  # its state before the pause
    held_back: bool = False  # was paused or held at least once while it waited
    released: bool = False
