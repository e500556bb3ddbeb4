"""Operations that take more than one request: waiting, gathering, batches, edits.

Each conversation is a generator that yields calls and receives their answers; both clients drive it with `converse`.
The clock is an argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from rota.client.calls import task_calls
from rota.client.calls.call import Answer, Call
from rota.client.errors import WaitTimeout
from rota.client.options import TaskSpec
from rota.model.answers.tasks import AttemptDocument, EndedTask, TaskDocument, WaitAnswer
from rota.model.request.task_request import MAX_BATCH

Value = TypeVar("Value")
Conversation: TypeAlias = Generator[Call[Any], Any, Value]
Clock: TypeAlias = Callable[[], float]


def ask(call: Call[Answer]) -> Conversation[Answer]:
    """One call of a conversation; keeps the type of its answer."""
    answer: Answer = yield call
    return answer


def wait(
    task_id: int,
    timeout_seconds: float | None,
    clock: Clock,
    longest_seconds: float = task_calls.LONGEST_WAIT_SECONDS,
) -> Conversation[TaskDocument]:
    """The task's document once it has ended. One request waits for `longest_seconds` at most."""
    until = until_time(timeout_seconds, clock)
    while True:
        left = until - clock()
        document = yield from ask(task_calls.task_when_ended(task_id, min(left, longest_seconds)))
        if document.ended:
            return document
        if left <= 0:
            raise WaitTimeout(
                f"task {task_id} is still {document.state} after {timeout_seconds:g} s", task_ids=(task_id,)
            )


def wait_for_all(
    task_ids: Sequence[int],
    timeout_seconds: float | None,
    clock: Clock,
    seen: Callable[[WaitAnswer], None] = lambda _: None,
    longest_seconds: float = task_calls.LONGEST_WAIT_SECONDS,
) -> Conversation[dict[int, EndedTask]]:
    """Every task once it has ended, by id. `seen` is called with each answer, to show progress."""
    until = until_time(timeout_seconds, clock)
    pending = list(dict.fromkeys(task_ids))
    ended: dict[int, EndedTask] = {}
    while pending:
        left = until - clock()
        answer = yield from ask(task_calls.wait_for(pending[:MAX_BATCH], min(left, longest_seconds)))
        ended |= {task.id: task for task in answer.ended}
        pending = [task_id for task_id in pending if task_id not in ended]
        seen(answer)
        if pending and left <= 0 and not answer.more:
            raise WaitTimeout(
                f"{len(pending)} of {len(set(task_ids))} tasks have not ended after {timeout_seconds:g} s",
                task_ids=tuple(pending),
            )
    return ended


def submit_many(specs: Sequence[TaskSpec], fresh_key: Callable[[], str | None]) -> Conversation[tuple[int, ...]]:
    """As many batches as needed, a request each. A `ref` is valid only inside one request."""
    if len(specs) > MAX_BATCH and any(spec.get("ref") for spec in specs):
        raise ValueError(f"tasks that name each other by ref must fit in one batch of {MAX_BATCH:,}")
    ids: list[int] = []
    for start in range(0, len(specs), MAX_BATCH):
        answer = yield from ask(task_calls.submit_batch(specs[start : start + MAX_BATCH], fresh_key()))
        ids += answer.ids
    return tuple(ids)


def edited(task_id: int, changes: Mapping[str, Any], version: int | None) -> Conversation[TaskDocument]:
    """The edit of a given version; None: of the current one."""
    if version is None:
        version = (yield from ask(task_calls.task(task_id))).version
    return (yield from ask(task_calls.edit(task_id, changes, version or 0)))


def until_time(timeout_seconds: float | None, clock: Clock) -> float:
    return math.inf if timeout_seconds is None else clock() + timeout_seconds


def attempts(task_id: int) -> Conversation[list[AttemptDocument]]:
    """All pages: one for a task, several for a large array or graph."""
    found: list[AttemptDocument] = []
    cursor: str | None = None
    while True:
        page = yield from ask(task_calls.attempts(task_id, cursor=cursor))
        found += page.attempts
        cursor = page.next
        if cursor is None:
            return found
