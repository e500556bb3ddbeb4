"""The rows of new tasks: the columns of `tasks` and `queue` that admission writes, and their values for each `Draft`.

Tasks of one template share most of their columns; these are made, and encoded for COPY, once for a whole batch. A lone
task is not encoded: its values are the arguments of one statement. The columns are listed here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from rota.model.clock import to_us
from rota.model.errors import Fault
from rota.model.queue import ReadyTask, urgent_before_ms
from rota.model.resources import Shape
from rota.model.schedule.schedule import ScheduledFor
from rota.model.task import Kind, Scheduling, State, Upstream
from rota.model.tenant import Caller
from rota.model.tolerance import ToleranceSource
from rota.store.copy_format import NULL, Columns, row_start, text

# The columns of each table in three groups: a task's own, those that differ if it waits for other tasks, and those that
# all tasks of a template share.
TASK_OWN = ("id", "spec", "idempotency_key")
TASK_WAITS = Columns(after_tasks="bigint[]", after_rules="smallint[]", scheduling="smallint")
TASK_SHARED = Columns(
    tenant="integer", user_name="text", pool="smallint", kind="smallint", name="text", lane="smallint",
    priority="integer", tolerance_ms="bigint", tolerance_given="boolean", tolerance_source="smallint",
    leeway_ms="bigint", not_before="timestamptz", tier="text", shape="integer", server="integer",
    concurrency_key="text", concurrency_limit="integer",
    concurrency_global="boolean", cap_ms="bigint", attempts="smallint", backoff_ms="integer",
    backoff_limit_ms="integer", upstream="smallint", tags="jsonb", preemptible="boolean", category="text",
    unplaceable_waits="boolean", created_at="timestamptz", artifacts="bytea[]", schedule="bigint",
    scheduled_for="timestamptz", retry_rules="json", expires="boolean", start_by="timestamptz",
    urgent_at="timestamptz",
)  # fmt: skip
QUEUE_OWN = ("id",)
QUEUE_WAITS = Columns(state="smallint", expires="boolean")
QUEUE_SHARED = Columns(
    pool="smallint", tenant="integer", lane="smallint", urgency="integer", cap_ms="bigint", shape="integer",
    work="integer", attempts="smallint", concurrency_key="text", concurrency_limit="integer",
    concurrency_global="boolean", preemptible="boolean", wake_at="timestamptz", start_by="timestamptz",
    leeway_ms="bigint",
)  # fmt: skip
TASK_COLUMNS = (*TASK_OWN, *TASK_WAITS.names, *TASK_SHARED.names)
QUEUE_COLUMNS = (*QUEUE_OWN, *QUEUE_WAITS.names, *QUEUE_SHARED.names)

PARTITION_SIZE = 5_000_000  # task ids in each partition of `tasks` and of the tables partitioned like it

_task_start = row_start(len(TASK_COLUMNS))
_queue_start = row_start(len(QUEUE_COLUMNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The meaning of a request without its arguments, key and parents. A stored field has the name of its column."""

    kind: Kind
    name: str
    work: int
    pool: int
    lane: int
    category: str | None
    preemptible: bool
    unplaceable_waits: bool
    priority: int
    tolerance_ms: int  # as it orders the task
    tolerance_given: bool  # by the request or its category, and the lane promotes
    tolerance_source: ToleranceSource
    leeway_ms: int | None  # it is late so much after its place in the queue; None: never
    expires: bool  # dropped if it could not start in time
    not_before: datetime | None
    tier: str
    shape: Shape
    cap_ms: int
    attempts: int
    backoff_ms: int
    backoff_limit_ms: int
    retry_rules: str | None
    concurrency_key: str | None
    concurrency_limit: int | None
    concurrency_global: bool  # counted across pools
    upstream: Upstream
    tags: str | None
    secrets: tuple[str, ...]
    may_submit: bool  # while it runs, other tasks
    artifacts: tuple[bytes, ...]  # digests
    spec_head: str  # the spec as JSON, open at its end for the arguments


class Draft(msgspec.Struct):
    """A task that passed all checks. `parents` are ids outside the batch, `siblings` are indexes in it.

    `rules`: the rule for each parent and sibling, parents first; empty if the template's `upstream` holds for all.
    """

    template: Template
    spec: str
    parents: list[int]
    siblings: list[int]
    idempotency_key: str | None
    key_hash: bytes | None
    body_hash: bytes
    pointer: str
    id: int = 0
    rules: list[Upstream] = []
    passed: Fault | None = None  # its start time has passed: refused, unless its key was used before


class _Tail:
    """The values of a task's rows behind its own: first those of its waits, then the shared ones.

    Tasks of a template without parents have one tail, which is encoded once.
    """

    __slots__ = ("queue", "queue_bytes", "shared", "task", "task_bytes")

    def __init__(self, task: tuple[object, ...], queue: tuple[object, ...], shared: _Shared) -> None:
        self.task = task
        self.queue = queue
        self.shared = shared
        self.task_bytes = b""
        self.queue_bytes = b""

    def encode_task(self) -> bytes:
        self.task_bytes = TASK_WAITS.encode(self.task) + self.shared.task_bytes
        return self.task_bytes

    def encode_queue(self) -> bytes:
        self.queue_bytes = QUEUE_WAITS.encode(self.queue) + self.shared.queue_bytes
        return self.queue_bytes


class _Shared:
    """The values that all tasks of a template share in a batch, encoded when the first of them is copied."""

    def __init__(self, task: tuple[object, ...], queue: tuple[object, ...]) -> None:
        self.task = task
        self.queue = queue

    @cached_property
    def task_bytes(self) -> bytes:
        return TASK_SHARED.encode(self.task)

    @cached_property
    def queue_bytes(self) -> bytes:
        return QUEUE_SHARED.encode(self.queue)


class Rows(msgspec.Struct, frozen=True):
    """A task's row in each table, and what the leader of its pool must know of it."""

    draft: Draft
    tail: _Tail
    pool: int
    state: State
    ready: ReadyTask | None
    wake_at: datetime | None

    def values(self) -> tuple[object, ...]:
        """The values of TASK_COLUMNS, then of QUEUE_COLUMNS."""
        draft, tail = self.draft, self.tail
        task = (draft.id, draft.spec, draft.idempotency_key, *tail.task, *tail.shared.task)
        return (*task, draft.id, *tail.queue, *tail.shared.queue)


def task_records(rows: Iterable[Rows]) -> list[bytes]:
    """The rows of `tasks` as COPY takes them."""
    parts: list[bytes] = []
    for row in rows:
        draft = row.draft
        key = NULL if draft.idempotency_key is None else text(draft.idempotency_key)
        parts += (_task_start(draft.id), text(draft.spec), key, row.tail.task_bytes or row.tail.encode_task())
    return parts


def queue_records(rows: Iterable[Rows]) -> list[bytes]:
    parts: list[bytes] = []
    for row in rows:
        parts += (_queue_start(row.draft.id), row.tail.queue_bytes or row.tail.encode_queue())
    return parts


class _Parts(msgspec.Struct):
    """What the tasks of one template share in a batch."""

    template: Template
    wake_at: datetime | None
    start_by_us: int
    state: State
    free: _Tail  # of tasks without parents


class RowMaker:
    """Makes the rows of one caller's drafts."""

    def __init__(self, caller: Caller, *, now: datetime, server: int, scheduled: ScheduledFor | None = None) -> None:
        self._caller = caller
        self._scheduled = scheduled
        self._now = now
        self._server = server
        self._parts: _Parts | None = None

    def rows(self, draft: Draft, shape: int, *, blocked: bool = False, after: list[int] | None = None) -> Rows:
        template = draft.template
        parts = self._parts
        if parts is None or parts.template is not template:
            parts = self._parts = self._make_parts(template, shape)
        state, tail = parts.state, parts.free
        if after:
            state = State.BLOCKED if blocked else state
            tail = self._tail_after(draft, parts, state, after)
        ready = None
        if not blocked and template.not_before is None:
            ready = ReadyTask(
                draft.id, 0, self._caller.tenant_id, template.lane, -template.priority, parts.start_by_us,
                template.cap_ms, shape, template.work, template.concurrency_key, template.concurrency_limit or 1,
                template.preemptible, None, template.concurrency_global, template.leeway_ms,
            )  # fmt: skip
        return Rows(draft, tail, template.pool, state, ready, None if blocked else parts.wake_at)

    def _make_parts(self, template: Template, shape: int) -> _Parts:
        not_before = template.not_before
        start_by = (not_before or self._now) + timedelta(milliseconds=template.tolerance_ms)
        urgent_at = None
        if template.tolerance_given:
            urgent_at = start_by - timedelta(milliseconds=urgent_before_ms(template.tolerance_ms))
        wake_at = not_before or urgent_at
        state = State.DELAYED if not_before else State.READY
        scheduling = self._scheduling(Scheduling.AT if not_before else Scheduling.NOW)
        scheduled = self._scheduled
        values = {
            "tenant": self._caller.tenant_id,
            "user_name": self._caller.user,
            "shape": shape,
            "server": self._server,
            "created_at": self._now,  # delay and tolerance count from here, not from the start of the transaction
            "start_by": start_by,
            "urgent_at": urgent_at,
            "wake_at": wake_at,
            "urgency": -template.priority,
            "artifacts": template.artifacts or None,
            "schedule": None if scheduled is None else scheduled.schedule,
            "scheduled_for": None if scheduled is None else scheduled.instant,
        }
        task, queue = (
            tuple([values[name] if name in values else getattr(template, name) for name in columns.names])
            for columns in (TASK_SHARED, QUEUE_SHARED)
        )
        free = _Tail((None, None, scheduling), (state, template.expires), _Shared(task, queue))
        return _Parts(template, wake_at, to_us(start_by), state, free)

    def _tail_after(self, draft: Draft, parts: _Parts, state: State, after: list[int]) -> _Tail:
        task = (after, draft.rules or None, self._scheduling(Scheduling.DEPENDENT))
        # A blocked task does not expire: its tolerance counts from its release.
        return _Tail(task, (state, parts.template.expires and state is not State.BLOCKED), parts.free.shared)

    def _scheduling(self, otherwise: Scheduling) -> Scheduling:
        return otherwise if self._scheduled is None else Scheduling.SCHEDULE
