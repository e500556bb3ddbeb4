"""What a task was given and what it gave back: left out of answers to callers without the scope `results:read`.

Operators and viewers of the whole cluster have it only where the tenant allows support. They see names, states, times,
resources and reasons, also by routes whose own scope is another.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from rota.model.accounts.permissions import Scope
from rota.model.answers.fields import LEFT_OUT, only
from rota.model.answers.schedules import ScheduleDocument
from rota.model.answers.tasks import AttemptDocument, EndedTask, Failure, TaskDocument
from rota.model.tenant import Caller

_PLAIN = frozenset({"isolation", "network", "processes", "log_limit", "cpu_limit", "may_submit"})  # of a spec


def task_for(caller: Caller, task: TaskDocument) -> TaskDocument:
    if caller.may(Scope.RESULTS_READ):
        return task
    spec = {name: value for name, value in task.spec.items() if name in _PLAIN}
    return replace(task, spec=spec, result=None, failure=_without_words(task.failure), outputs=LEFT_OUT)


def end_for(caller: Caller, end: EndedTask) -> EndedTask:
    if caller.may(Scope.RESULTS_READ):
        return end
    return replace(end, result=None, failure=_without_words(end.failure))


def attempt_for(caller: Caller, attempt: AttemptDocument) -> AttemptDocument:
    if caller.may(Scope.RESULTS_READ):
        return attempt
    return replace(attempt, failure=_without_words(attempt.failure))


def schedule_for(caller: Caller, schedule: ScheduleDocument) -> ScheduleDocument:
    if caller.may(Scope.RESULTS_READ):
        return schedule
    tasks = [{"name": task["name"]} if "name" in task else {} for task in schedule.tasks]
    return replace(schedule, tasks=tasks, artifacts=[])


def _without_words(failure: Any) -> Failure | None:
    """Its type: the message and the traceback are the task's own words. `failure`: as stored, or None."""
    if failure is None:
        return None
    known: dict[str, Any] = msgspec.json.decode(failure)
    return only(Failure, type=known.get("type"))
