"""The server's answers as frozen values. A server may add fields at any time: unknown ones are ignored here.

Every field that a list may leave out has a default, so that one type serves summaries and whole documents.
These types only describe; deciding what an answer means is for `outcomes.py`, and drawing it for the CLI.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from rota.model.task import TERMINAL

ENDED_STATES = frozenset(state.label for state in TERMINAL)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong inside the task, in its own words."""

    type: str | None = None
    message: str | None = None
    traceback: str | None = None


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """Resources: asked for, present on a node, or free there."""

    cpu: float = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    iops: int = 0
    bandwidth_bits: int = 0
    gpus: float = 0
    ports: int = 0
    custom: dict[str, int] = {}


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    array: int | None = None  # how many tasks: the id is an array's
    state: str = ""
    created: bool = True


class SubmittedBatch(msgspec.Struct, frozen=True, kw_only=True):
    ids: list[int]
    replayed: list[int] = []


class ProgressDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a running task said last. `fraction` is from 0 to 1, None when it said only words."""

    fraction: float | None = None
    message: str = ""
    at: datetime | None = None


class OutputDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a task left, as an artifact."""

    name: str  # its path in the work folder
    artifact: str  # sha256:…
    sha256: str = ""
    size_bytes: int = 0


class ArrayCounts(msgspec.Struct, frozen=True, kw_only=True):
    size: int
    counts: dict[str, int] = {}  # by status

    @property
    def ended(self) -> int:
        return sum(self.counts.get(status, 0) for status in ("done", "failed", "cancelled"))


class EditDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Who changed what while it waited: for each field what it was, and what it became."""

    user: str
    at: datetime
    changes: dict[str, tuple[Any, Any]]


class RetryRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which ends are worth another attempt, as its owner wrote them."""

    retry_on: list[str] = []
    fail_on: list[str] = []


class TaskDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One task. `None` for a time means that it has not come yet."""

    id: int
    state: str
    status: str = ""
    name: str | None = None
    kind: str = ""
    reason: str | None = None
    tenant: str = ""
    user: str = ""
    pool: str = ""
    lane: str = ""
    category: str | None = None
    tier: str | None = None
    priority: int = 0
    scheduling: str = ""
    admitted_by: str | None = None
    resources: Amounts | None = None
    require: dict[str, str] = {}
    preemptible: bool = False
    unplaceable: str = "refuse"
    cap_seconds: float | None = None
    tolerance_seconds: float | None = None
    attempts: int = 1
    attempt: int = 0
    created_at: datetime | None = None
    not_before: datetime | None = None
    start_by: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    died_at: datetime | None = None
    node: str | int | None = None
    exit_code: int | None = None
    run_seconds: float | None = None
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    written_bytes: int | None = None
    log_bytes: int = 0  # output of its last attempt that is kept, and what was beyond the limit
    log_dropped_bytes: int = 0
    result: Any = None
    failure: Failure | None = None
    outcome: str | None = None
    after: list[int] = []
    after_end: list[int] = []
    after_failed: list[int] = []
    retry_rules: RetryRules | None = None
    tags: dict[str, str] = {}
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    concurrency_scope: str | None = None  # pool or global; None without a key
    retry_of: int | None = None
    retried_as: int | None = None
    progress: ProgressDocument | None = None
    outputs: list[OutputDocument] = []  # of a task that is done
    graph: int | None = None
    index: int | None = None  # of an array
    array: ArrayCounts | None = None  # in a folded list: the line is a whole array
    schedule: str | None = None  # by name
    scheduled_for: datetime | None = None
    spec: dict[str, Any] = {}
    version: int | None = None  # which an edit names; None once it has ended
    edits: list[EditDocument] = []
    on_late: str = "keep"
    retry_after: float | None = None  # of one that was dropped: so many seconds, then try again

    @property
    def ended(self) -> bool:
        return self.state in ENDED_STATES


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page, newest first. `next` is the cursor of the next page, None on the last."""

    tasks: list[TaskDocument]
    next: str | None = None

    def __iter__(self) -> Iterator[TaskDocument]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)


class EndedTask(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    state: str
    result: Any = None
    failure: Failure | None = None
    exit_code: int | None = None
    outcome: str | None = None
    reason: str | None = None
    retry_after: float | None = None  # seconds, of one that was dropped


class WaitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    ended: list[EndedTask]
    pending: int = 0


class CancelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    state: str
    status: str = ""
    cancelling: bool = False


class RefusedTask(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    reason: str = ""


class CancelManyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`cancelled` had not started; `cancelling` are being stopped; `refused` had ended or do not exist."""

    cancelled: list[int] = []
    cancelling: list[int] = []
    refused: list[RefusedTask] = []


class PauseAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`pausing`: it still runs, and is asked to save and stop."""

    id: int
    state: str
    status: str = ""
    pausing: bool = False


class Extended(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    cap_seconds: float
    state: str = ""
    status: str = ""


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    retry_of: int


class AttemptDocument(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    outcome: str | None = None
    state: str | None = None
    node: str | int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    run_seconds: float | None = None
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    written_bytes: int | None = None
    exit_code: int | None = None
    failure: Failure | None = None
    reason: str | None = None
    log_bytes: int = 0
    log_dropped_bytes: int = 0


class AttemptList(msgspec.Struct, frozen=True, kw_only=True):
    attempts: list[AttemptDocument]
