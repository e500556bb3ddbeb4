"""What the auditor knows of one task, the numbers it knows by heart, and how it says that an invariant is broken."""

from __future__ import annotations

from dataclasses import dataclass

BLOCKED, DELAYED, READY, RUNNING, PAUSED = 1, 2, 3, 4, 5
DONE, FAILED, CANCELLED, SKIPPED, EXPIRED = 10, 11, 12, 13, 14
NAMES = {
    1: "blocked", 2: "delayed", 3: "ready", 4: "running", 5: "paused",
    10: "done", 11: "failed", 12: "cancelled", 13: "skipped", 14: "expired",
}  # fmt: skip
OK, LOST, BAD_RESULT = 1, 5, 9
COUNTED = (2, 3, 7, 8, 9, 12)  # error, timeout, refused, crashed, bad result, retry: these use up an attempt
FREE = (6, 10)  # recalled, disrupted
MOST_LOSSES = 3
SKIP, RUN, ONLY_FAILED = 1, 2, 3  # what a child wants of its parents
FAIR_AFTER_US = 12_000_000
LIMIT_HEARD_US = 30_000_000  # a poll, a stalled statement and a pause: then every leader has heard of a limit
FAIR_STARTS_A_TENANT = 10


class Violation(Exception):
    """An invariant does not hold. `args` are its number and the story in one sentence."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(invariant, what)
        self.invariant = invariant
        self.what = what


@dataclass(slots=True, kw_only=True)
class Known:
    """One task as the ledger has seen it."""

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
    lock_key: str | None
    key_limit: int
    everywhere: bool  # the key is counted across pools
    shape: int
    lane: int
    start_by_us: int
    tolerance_ms: int | None  # None: nobody gave it one
    expires: bool  # its owner would rather have it dropped than start late
    version: int = 0
    attempt: int = 0
    counted: int = 0
    losses: int = 0
    boot: int = 0
    cancel_wished: bool = False
    cancel_acknowledged: bool = False
    pause_wished: bool = False  # while it runs: to be held back once it has ended
    held_state: int = 0  # what it was when it was held back
    held_back: bool = False  # it was, some time while it waited
    released: bool = False
