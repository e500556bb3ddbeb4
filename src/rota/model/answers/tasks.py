"""Tasks: submitted, listed, read, waited for, their attempts and their output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from rota.model.answers.fields import MayBeAbsent, Time
from rota.model.task import TERMINAL

ENDED_STATES = frozenset(state.label for state in TERMINAL)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt failed: the type, message and traceback of its error."""

    type: MayBeAbsent[str | None] = None
    message: MayBeAbsent[str | None] = None
    traceback: MayBeAbsent[str | None] = None


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """Resources: required by a task, present on a node, or free there."""

    cpu: float = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    iops: int = 0
    bandwidth_bits: int = 0
    gpus: float = 0
    ports: int = 0
    custom: dict[str, int] = {}


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The task or array that a request made. `created` is false if the idempotency key was used before."""

    id: int
    array: MayBeAbsent[int | None] = None  # how many tasks: the id is an array's
    state: MayBeAbsent[str] = ""  # absent if it was not created now
    created: bool = True


class SubmittedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the tasks, in the order of the request; `replayed` are those that had been submitted before."""

    ids: list[int]
    replayed: list[int] = []


class ProgressDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The latest progress of a running task. `fraction` is from 0 to 1, or null if the task gave only a message."""

    fraction: float | None = None
    message: str = ""
    at: Time | None = None


class OutputDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a task left, as an artifact."""

    name: str  # its path in the work folder
    artifact: str  # sha256:…
    sha256: str = ""
    size_bytes: int = 0


class ArrayCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks an array has, and how many of each status."""

    size: int
    counts: dict[str, int] = {}

    @property
    def ended(self) -> int:
        return sum(self.counts.get(status, 0) for status in ("done", "failed", "cancelled"))


class EditDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One edit of a waiting task: for each field the value before and after."""

    user: str
    at: Time
    changes: dict[str, tuple[Any, Any]]


class TaskChange(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody did to a task, alone or with others: the row of the audit log that tells of it."""

    audit: int
    at: Time
    action: str  # task.cancel, operation.hold, graph.retry
    by: str
    credential: str = ""  # token ci-7, session 12, task 9
    on_behalf_of: str = ""
    via: str = ""  # ui, cli, api or sdk
    reason: str = ""
    count: int | None = None  # of a change of many: how many


class RetryRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which failures are worth another attempt, as the owner wrote them."""

    retry_on: list[str] = []
    fail_on: list[str] = []


class TaskSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One entry in a list of tasks: a task, or with `fold=arrays` a whole array, of which only few fields are known."""

    id: int
    state: str
    status: str = ""
    name: str | None = None
    kind: str = ""
    user: str = ""
    created_at: Time | None = None
    reason: MayBeAbsent[str | None] = None
    attempt: MayBeAbsent[int] = 0
    pool: MayBeAbsent[str] = ""
    lane: MayBeAbsent[str] = ""
    tier: MayBeAbsent[str | None] = None
    priority: MayBeAbsent[int] = 0
    next_attempt_at: MayBeAbsent[Time | None] = None
    started_at: MayBeAbsent[Time | None] = None
    ended_at: MayBeAbsent[Time | None] = None
    run_seconds: MayBeAbsent[float | None] = None
    node: MayBeAbsent[str | None] = None
    exit_code: MayBeAbsent[int | None] = None
    progress: MayBeAbsent[ProgressDocument | None] = None
    tags: MayBeAbsent[dict[str, str]] = {}
    name_in_graph: MayBeAbsent[str | None] = None  # absent, or null, outside of a graph
    array: MayBeAbsent[ArrayCounts | None] = None  # only of an array

    @property
    def ended(self) -> bool:
        return self.state in ENDED_STATES


class TaskDocument(TaskSummary, frozen=True, kw_only=True):
    """One task. A time is null until it has come."""

    tenant: str = ""
    submitted_lane: str | None = None  # `lane` is the one it is in now, or ran in
    category: str | None = None
    scheduling: str = ""
    admitted_by: str | None = None
    resources: Amounts | None = None
    cpu_limit: str = ""  # burst: it may use idle CPU beyond its grant; quota: never more than the grant
    require: dict[str, str] = {}
    preemptible: bool = False
    unplaceable: str = "refuse"
    cap_seconds: float | None = None
    on_late: str = "keep"
    tolerance_seconds: float | None = None  # null: nobody gave one
    tolerance_source: str = ""  # given, category, cap, plan or none
    attempts: int = 1
    retry_rules: RetryRules | None = None
    not_before: Time | None = None
    start_by: Time | None = None
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    written_bytes: int | None = None
    log_bytes: int = 0  # output of the last attempt that is kept
    log_dropped_bytes: int = 0  # output of the last attempt that is left out
    result: Any = None
    failure: Failure | None = None
    outcome: str | None = None
    cancelling: bool = False
    pausing: bool = False
    after: list[int] = []
    after_end: list[int] = []
    after_failed: list[int] = []
    upstream: str = ""
    dependents: list[int] = []  # tasks that depend on it directly, also ended ones: the first 1,000
    more_dependents: bool = False  # there are more of them
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    concurrency_scope: str | None = None  # pool or global; null without a concurrency key
    idempotency_key: str | None = None
    retry_of: int | None = None
    retried_as: int | None = None
    graph: int | None = None
    own_graph: int | None = None  # the same, if the task began it: it may submit others
    index: int | None = None  # in its array
    schedule: str | None = None  # by name
    scheduled_for: Time | None = None
    spec: dict[str, Any] = {}
    retry_after: float | None = None  # seconds, of an expired task
    version: int | None = None  # required by an edit; null once the task has ended
    edits: list[EditDocument] = []
    outputs: MayBeAbsent[list[OutputDocument]] = []  # only of a task that is done
    history: MayBeAbsent[list[TaskChange]] = []  # of one task, not in lists: who cancelled, held, edited it


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page, newest first. `next` is the cursor of the next page, null on the last."""

    tasks: list[TaskSummary]
    next: str | None = None
    more_related: MayBeAbsent[bool] = (
        False  # of `ancestors_of` and `descendants_of`: only the nearest 10,000 are searched
    )

    def __iter__(self) -> Iterator[TaskSummary]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)


class EndedTask(msgspec.Struct, frozen=True, kw_only=True):
    """How a task ended."""

    id: int
    state: str
    status: str = ""
    outcome: str | None = None
    result: Any = None
    failure: Failure | None = None
    reason: str | None = None
    exit_code: int | None = None
    retry_after: float | None = None  # seconds, of an expired task


class WaitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks that have ended, and how many of `ids` are not among them.

    `more`: others have ended too, but an answer has a largest size. Ask again without those that came.
    """

    ended: list[EndedTask]
    pending: int = 0
    more: bool = False
    documents: list[TaskDocument] = []  # instead of `ended`, if they were asked for
    graphs: MayBeAbsent[dict[str, int]] = {}  # if asked for: the graphs that tasks began, by the tasks' ids


class AttemptDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a task. While it runs, its `outcome`, its end and what it used are null.

    A lost attempt ended when it was given up; it ran at least until its node was last heard of. If the node comes back,
    `run_seconds` becomes what the node measured.
    """

    task: int = 0
    name: MayBeAbsent[str] = ""  # only in a list of an array or a graph: the task's name there
    number: int
    outcome: str | None = None
    state: str | None = None
    node: str | None = None
    lane: str | None = None  # that it ran in: urgent if it was promoted
    started_at: Time | None = None
    ended_at: Time | None = None
    run_seconds: float | None = None
    frozen_seconds: float | None = None  # how long it stood still because its node had no leader; null: never
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    written_bytes: int | None = None
    exit_code: int | None = None
    failure: Failure | None = None
    reason: str | None = None
    log_bytes: int = 0
    log_dropped_bytes: int = 0


class AttemptList(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts of a task, oldest first; the last one may be running. Of an array or a graph, those of each task.

    `next` is the cursor of the next page of tasks, null on the last.
    """

    attempts: list[AttemptDocument]
    next: str | None = None


class TaskResult(EndedTask, frozen=True, kw_only=True):
    """How a task ended, or the state it is in, and its result."""

    name: MayBeAbsent[str] = ""  # only of an array or a graph: the task's name there
    index: MayBeAbsent[int | None] = None  # only of an array

    @property
    def ended(self) -> bool:
        return self.state in ENDED_STATES


class ResultPage(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task, or those of the tasks of an array or a graph, in the order of the graph.

    `next` is the cursor of the next page, null on the last.
    """

    results: list[TaskResult]
    next: str | None = None


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a log: a chunk of output, the progress of the task, or with `end` how the task ended."""

    task: MayBeAbsent[int] = 0  # only in the log of an array or a graph: the task that wrote it
    name: MayBeAbsent[str] = ""  # the same: its name in the graph
    index: MayBeAbsent[int | None] = None  # the same: its place in the array
    graph: MayBeAbsent[int] = 0  # only with `end`: all tasks of this array or graph have ended
    attempt: MayBeAbsent[int] = 0
    seq: MayBeAbsent[int] = 0
    stream: MayBeAbsent[str] = "stdout"
    data_base64: MayBeAbsent[str] = ""
    offset: MayBeAbsent[int] = -1  # how many bytes of the stream came before; absent if unknown
    left_out_bytes: MayBeAbsent[int] = 0  # how many bytes of the stream are left out just before this chunk
    progress: MayBeAbsent[ProgressDocument | None] = None
    end: MayBeAbsent[bool] = False
    state: MayBeAbsent[str] = ""
    exit_code: MayBeAbsent[int | None] = None
    reason: MayBeAbsent[str | None] = None
    kept_bytes: MayBeAbsent[int] = 0
    dropped_bytes: MayBeAbsent[int] = 0
    next: MayBeAbsent[str | None] = None  # the last line of a page of an array's or a graph's log: the next cursor
