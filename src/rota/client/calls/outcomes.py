"""From an answer to an error or a result: a problem document becomes a typed error, an ended task its result.

Pure. Only the stable parts of an answer decide (status, slug, state, the failure's type); texts are for people and are
passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rota.client import errors
from rota.model.answers.problems import ProblemDocument
from rota.model.answers.tasks import EndedTask, TaskDocument
from rota.model.attempt import Outcome
from rota.model.function.annotations import converted

_BY_STATE: dict[str, type[errors.TaskFailed]] = {
    "cancelled": errors.TaskCancelled,
    "skipped": errors.TaskSkipped,
    "expired": errors.TaskExpired,
}
_BY_OUTCOME: dict[str, type[errors.TaskFailed]] = {
    Outcome.TIMEOUT.label: errors.TaskTimedOut,
    Outcome.LOST.label: errors.TaskLost,
    Outcome.CRASHED.label: errors.TaskLost,
}


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> errors.RotaError:
    """The error for an answer that is not 2xx."""
    problem = _problem(body)
    slug = problem.type.rsplit("/", 1)[-1]
    text = problem.detail or problem.title or f"the server answered HTTP {status}"
    retry_after = problem.retry_after if problem.retry_after is not None else _seconds(headers.get("retry-after"))
    document = body if problem.type or problem.title else b""
    if status in (502, 503, 504) and slug != "no-object-store":  # no retry helps there
        return errors.Unreachable(text, sent=True, retry_after=retry_after, document=document)
    if not 400 <= status < 500 and status != 503:
        return errors.ServerFault(f"{text} (HTTP {status})", document=document)
    kinds: dict[int, type[errors.Refused]] = {401: errors.Unauthorized, 404: errors.NotFound, 429: errors.LimitExceeded}
    kind = kinds.get(status, errors.Refused)
    if kind is errors.LimitExceeded and problem.title and problem.title != text:
        text = f"{problem.title}: {text}"
    error = kind(text, status=status, slug=slug, faults=tuple(problem.errors), document=document)
    if isinstance(error, errors.LimitExceeded):
        error.retry_after = retry_after
    return error


def failure_of(task: TaskDocument | EndedTask) -> errors.TaskFailed | None:
    """None when the task ended `done`."""
    if task.state == "done":
        return None
    failure = task.failure
    outcome = task.outcome or (failure.type if failure else None)
    kind = _BY_STATE.get(task.state) or _BY_OUTCOME.get(outcome or "") or errors.TaskFailed
    error = kind(
        _sentence(task),
        task_id=task.id,
        state=task.state,
        type=failure.type if failure else None,
        message=failure.message if failure else None,
        traceback=failure.traceback if failure else None,
        exit_code=task.exit_code,
    )
    if isinstance(error, errors.TaskExpired):
        error.retry_after = task.retry_after
    return error


def result_of(task: TaskDocument | EndedTask) -> object:
    """The task's JSON result; raises the error of `failure_of`."""
    failure = failure_of(task)
    if failure is not None:
        raise failure
    return task.result


def typed_result(task: TaskDocument | EndedTask, kind: object | None) -> object:
    """As `result_of`, converted to `kind`; `ResultMismatch` when it can't be."""
    value = result_of(task)
    if kind is None:
        return value
    try:
        return converted(value, kind)
    except (msgspec.ValidationError, TypeError) as error:
        name = kind.__name__ if isinstance(kind, type) else str(kind)
        raise errors.ResultMismatch(f"the result of task {task.id} is not a {name}: {error}") from None


def _sentence(task: TaskDocument | EndedTask) -> str:
    ended = f"task {task.id} {'was ' if task.state in _BY_STATE else ''}{task.state}"
    if task.state == "expired" and task.reason:
        return f"task {task.id} has expired: {task.reason}"
    if task.failure is not None and (task.failure.type or task.failure.message):
        return f"{ended}: " + ": ".join(filter(None, (task.failure.type, task.failure.message)))
    if task.reason:
        return f"{ended}: {task.reason}"
    return ended if task.exit_code is None else f"{ended} with exit code {task.exit_code}"


def _problem(body: bytes) -> ProblemDocument:
    try:
        return msgspec.json.decode(body, type=ProblemDocument, strict=False)
    except msgspec.MsgspecError:
        # The page of a proxy, or nothing: the status is enough.
        return ProblemDocument()


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text is not None else None
    except ValueError:
        return None  # a date: allowed by HTTP, not used by Rota
