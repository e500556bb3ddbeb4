"""From requests to drafts: a batch that passed every check, with its ids, ready to be written."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from rota.admit.judge.arrays import Expanded
from rota.admit.judge.dependency_graph import named_parents, resolve_references
from rota.admit.judge.facts import Facts
from rota.admit.judge.validate import Template, Validator, spec_of
from rota.model.clock import to_us
from rota.model.errors import Fault, Problem, invalid
from rota.model.queue import ReadyTask
from rota.model.request.task_request import TaskRequest
from rota.model.schedule.schedule import ScheduledFor
from rota.model.task import Scheduling, State, Upstream
from rota.model.tenant import Caller
from rota.store.admission import queue_fields, queue_row, task_fields, task_row
from rota.store.copy_format import NULL, text

LONGEST_KEY = 255


class Draft(msgspec.Struct):
    """One task about to be written. `parents` are ids outside the batch, `siblings` indexes inside it.

    `rules`: what it wants of each, parents first; empty where all of them are as its `upstream` says.
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


def draft_batch(
    requests: Sequence[TaskRequest],
    facts: Facts,
    *,
    key: str | None,
    single: bool,
    arrays: Expanded | None = None,
) -> list[Draft]:
    """Every fault of the batch at once, or its drafts. `key` is the Idempotency-Key header of a single task.

    `arrays`: the requests are what arrays and graphs became, with the faults found on the way.
    """
    validator = Validator(facts)
    pointers = [""] if single else [f"/tasks/{index}" for index in range(len(requests))]
    items: Sequence[int | None] = ()
    if arrays is not None:
        validator.faults += arrays.faults
        pointers, items = arrays.pointers, arrays.items
    siblings, sibling_rules = resolve_references(requests, pointers, validator.faults)
    drafts: list[Draft] = []
    for index, request in enumerate(requests):
        pointer = pointers[index]
        if validator.faults and index and pointers[index - 1] == pointer:
            continue  # of an array: what is wrong with one is wrong with all
        if request.array is not None or request.items:
            detail = "an array is submitted by itself, or as a task of a graph"
            validator.faults.append(Fault(f"{pointer}/array", "invalid-command", detail))
        template = validator.template(request, pointer)
        if len(request.args) or len(request.kwargs):
            validator.arguments(request, pointer)
        if request.idempotency_key is not None:
            check_key(request.idempotency_key, f"{pointer}/idempotency_key")
        own_key = request.idempotency_key or (key if single else None)
        parents, rules = _parents_of(request, pointer, validator.faults)
        if template is not None:
            drafts.append(
                Draft(
                    template, spec_of(template, request, items[index] if items else None), parents, siblings[index],
                    own_key,
                    None if own_key is None else hash_of(own_key.encode()),
                    b"" if own_key is None else _body_hash(request), pointer,
                )
            )  # fmt: skip
            if rules or sibling_rules[index]:
                drafts[-1].rules = [
                    *(rules.get(parent, template.upstream) for parent in parents),
                    *(sibling_rules[index].get(sibling, template.upstream) for sibling in siblings[index]),
                ]
    if validator.faults:
        raise invalid(validator.faults[:100])
    return drafts


def _parents_of(request: TaskRequest, pointer: str, faults: list[Fault]) -> tuple[list[int], dict[int, Upstream]]:
    """Ids it comes after, each once, and what it wants of those that are not in `after`."""
    if not (request.after or request.after_end or request.after_failed):
        return [], {}
    rules: dict[int, Upstream | None] = {}
    for field, rule, names in named_parents(request):
        own = [name for name in names if isinstance(name, int)]
        if any(not 0 < number < 2**63 for number in own):
            faults.append(Fault(f"{pointer}/{field}", "unknown-dependency", "a task's id is a positive number"))
        rules |= dict.fromkeys(own, rule)
    return list(rules), {parent: rule for parent, rule in rules.items() if rule is not None}


def hash_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:16]


def check_key(key: str, where: str) -> None:
    if not key or len(key) > LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise Problem(
            "idempotency-key-invalid", status=400, title="The idempotency key is not valid",
            detail=f"{where}: a key has 1 to {LONGEST_KEY} printable ASCII characters",
        )  # fmt: skip


def _body_hash(request: TaskRequest) -> bytes:
    """The same task gives the same hash whether its key came in the body or in the header."""
    return hash_of(msgspec.json.encode(msgspec.structs.replace(request, idempotency_key=None), order="deterministic"))


class Rows(msgspec.Struct, frozen=True):
    """A draft as rows, and what its pool's leader should hear of it."""

    pool: int
    state: State
    task: bytes
    queue: bytes
    ready: ReadyTask | None
    wake_at: datetime | None


class _Parts(msgspec.Struct):
    """What all tasks of one template share in a batch; the rows' tails as COPY takes them."""

    template: Template
    start_by: datetime
    urgent_at: datetime | None
    wake_at: datetime | None
    start_by_us: int
    state: State
    task_tail: bytes
    queue_tail: bytes
    free_task_tail: bytes  # the whole of a row behind (id, spec, key), for tasks that wait for nobody
    free_queue_tail: bytes


_AFTER_COLUMN = 3  # tasks: id, spec, key, then what the task waits for
_TASK_TAIL_COLUMN = 9
_QUEUE_TAIL_COLUMN = 5


class RowMaker:
    """Turns drafts of one caller into rows; the parts that don't differ are made once."""

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
        key = NULL if draft.idempotency_key is None else text(draft.idempotency_key)
        head = task_row(draft.id) + text(draft.spec) + key
        state = parts.state
        if after:
            state = State.BLOCKED if blocked else state
            kind = Scheduling.DEPENDENT if self._scheduled is None else Scheduling.SCHEDULE
            waits = (after, draft.rules or None, kind, None, parts.start_by, parts.urgent_at)
            task = head + task_fields(waits, first=_AFTER_COLUMN) + parts.task_tail
            # What waits for others has its whole tolerance ahead of it.
            moves = queue_fields((state, parts.wake_at, parts.start_by, template.expires and not blocked), first=1)
            queue = queue_row(draft.id) + moves + parts.queue_tail
        else:
            task = head + parts.free_task_tail
            queue = queue_row(draft.id) + parts.free_queue_tail
        ready = None
        if not blocked and template.not_before is None:
            ready = ReadyTask(
                draft.id, 0, self._caller.tenant_id, template.lane, -template.priority, parts.start_by_us,
                template.cap_ms, shape, template.work, template.concurrency_key, template.concurrency_limit or 1,
                template.preemptible, concurrency_global=template.concurrency_global,
            )  # fmt: skip
        return Rows(template.pool, state, task, queue, ready, None if blocked else parts.wake_at)

    def _make_parts(self, template: Template, shape: int) -> _Parts:
        not_before = template.not_before
        start_by = (not_before or self._now) + timedelta(milliseconds=template.tolerance_ms)
        urgent_at = None
        if template.tolerance_given:
            urgent_at = start_by - timedelta(milliseconds=max(5_000, template.tolerance_ms // 10))
        wake_at = not_before or urgent_at
        scheduling = Scheduling.AT if not_before else Scheduling.NOW
        if self._scheduled is not None:
            scheduling = Scheduling.SCHEDULE
        state = State.DELAYED if not_before else State.READY
        task_tail = self._task_tail(template, shape)
        queue_tail = self._queue_tail(template, shape)
        free = task_fields((None, None, scheduling, None, start_by, urgent_at), first=_AFTER_COLUMN)
        return _Parts(
            template, start_by, urgent_at, wake_at, to_us(start_by), state, task_tail, queue_tail,
            free + task_tail, queue_fields((state, wake_at, start_by, template.expires), first=1) + queue_tail,
        )  # fmt: skip

    def _task_tail(self, template: Template, shape: int) -> bytes:
        scheduled = self._scheduled
        values = (
            self._caller.tenant_id, self._caller.user, template.pool, template.kind, template.name, template.lane,
            template.priority, template.tolerance_ms, template.tolerance_given, template.not_before, template.tier,
            shape, self._server, template.concurrency_key, template.concurrency_limit, template.concurrency_global,
            template.cap_ms, template.attempts, template.backoff_ms, template.backoff_limit_ms, template.upstream,
            template.tags, template.preemptible, template.category, template.unplaceable_waits,
            self._now,  # the moment its delay and tolerance count from, not the one its transaction began
            template.artifacts or None,
            *((None, None) if scheduled is None else (scheduled.schedule, scheduled.instant)),
            template.retry_rules, template.expires,
        )  # fmt: skip
        return task_fields(values, first=_TASK_TAIL_COLUMN)

    def _queue_tail(self, template: Template, shape: int) -> bytes:
        values = (
            template.pool, self._caller.tenant_id, template.lane, -template.priority, template.cap_ms, shape,
            template.work, template.attempts, template.concurrency_key, template.concurrency_limit,
            template.concurrency_global, template.preemptible,
        )  # fmt: skip
        return queue_fields(values, first=_QUEUE_TAIL_COLUMN)
