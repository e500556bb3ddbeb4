"""The requests about tasks: submit, read, wait, cancel, extend, pause, retry.

Each function returns a `Call`. Nothing here connects, waits or reads a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import msgspec

from rota.client.calls.call import Call, get, post, query_of, reader
from rota.client.options import Duration, LogOptions, TaskFilter, TaskSpec, check_names, plain_duration, request_of
from rota.model.answers import tasks as answers
from rota.model.answers.task_changes import CancelAnswer, CancelManyAnswer, Extended, PauseAnswer, Retried
from rota.model.request.task_request import BatchRequest, TaskRequest

LONGEST_WAIT_SECONDS = 30.0  # the server's limit for one waiting request


# --- submitting


def submit(spec: TaskSpec, fresh_key: str | None) -> Call[answers.Submitted]:
    """`fresh_key` is used if the task has no idempotency key, so that a lost answer can be requested again."""
    return submit_request(request_of(spec), fresh_key)


def submit_request(request: TaskRequest, fresh_key: str | None) -> Call[answers.Submitted]:
    key = request.idempotency_key or fresh_key
    return Call(
        "POST",
        "/v1/tasks",
        reader(answers.Submitted),
        body=msgspec.json.encode(msgspec.structs.replace(request, idempotency_key=None)),
        idempotency_key=key,
        repeatable=key is not None,
        joins=True,
    )


def submit_batch(specs: Sequence[TaskSpec], fresh_key: str | None) -> Call[answers.SubmittedBatch]:
    """One request under one idempotency key, so that a lost answer can be requested again."""
    return submit_requests([request_of(spec) for spec in specs], fresh_key)


def submit_requests(requests: Sequence[TaskRequest], fresh_key: str | None) -> Call[answers.SubmittedBatch]:
    return Call(
        "POST",
        "/v1/tasks/batch",
        reader(answers.SubmittedBatch),
        body=msgspec.json.encode(BatchRequest(tasks=list(requests))),
        idempotency_key=fresh_key,
        repeatable=fresh_key is not None,
        joins=True,
    )


# --- reading


def task(task_id: int) -> Call[answers.TaskDocument]:
    return get(f"/v1/tasks/{task_id}", answers.TaskDocument)


def task_when_ended(task_id: int, wait_seconds: float) -> Call[answers.TaskDocument]:
    wait = min(max(wait_seconds, 0.0), LONGEST_WAIT_SECONDS)
    return Call(
        "GET",
        f"/v1/tasks/{task_id}",
        reader(answers.TaskDocument),
        query={"wait": f"{wait:.3f}"},
        repeatable=True,
        wait_seconds=wait,
    )


def wait_for(task_ids: Sequence[int], wait_seconds: float) -> Call[answers.WaitAnswer]:
    wait = round(min(max(wait_seconds, 0.0), LONGEST_WAIT_SECONDS), 3)
    return Call(
        "POST",
        "/v1/tasks/wait",
        reader(answers.WaitAnswer),
        body=msgspec.json.encode({"ids": list(task_ids), "timeout": wait}),
        repeatable=True,
        wait_seconds=wait,
    )


def tasks(*, fold_arrays: bool = False, **filters: Unpack[TaskFilter]) -> Call[answers.TaskPage]:
    check_names(filters, TaskFilter)
    return get("/v1/tasks", answers.TaskPage, {**filters, "fold": "arrays" if fold_arrays else None})


def attempts(task_id: int) -> Call[answers.AttemptList]:
    return get(f"/v1/tasks/{task_id}/attempts", answers.AttemptList)


def log(task_id: int, **options: Unpack[LogOptions]) -> Call[bytes]:
    check_names(options, LogOptions)
    return Call("GET", f"/v1/tasks/{task_id}/log", bytes, query=query_of(options), repeatable=True)


def log_stream(task_id: int, *, after: int | None, progress: bool, options: LogOptions) -> Call[bytes]:
    """To be streamed: one JSON line per chunk. `after` is the last chunk that was read of that attempt."""
    query = query_of({"follow": "true", "after": after, "progress": "true" if progress else None, **options})
    return Call("GET", f"/v1/tasks/{task_id}/log", bytes, query=query, repeatable=True)


# --- changing


def cancel(task_id: int) -> Call[CancelAnswer]:
    return post(f"/v1/tasks/{task_id}/cancel", CancelAnswer)


def cancel_many(task_ids: Sequence[int]) -> Call[CancelManyAnswer]:
    return post("/v1/tasks/cancel", CancelManyAnswer, {"ids": list(task_ids)})


def extend(task_id: int, *, by: Duration | None = None, cap: Duration | None = None) -> Call[Extended]:
    """Longer `by` a duration, or to a new `cap`. Only the latter may be repeated."""
    body = {"by": plain_duration(by), "cap": plain_duration(cap)}
    given = {name: value for name, value in body.items() if value is not None}
    return post(f"/v1/tasks/{task_id}/extend", Extended, given, repeatable=by is None)


def pause(task_id: int) -> Call[PauseAnswer]:
    return post(f"/v1/tasks/{task_id}/pause", PauseAnswer)


def resume(task_id: int) -> Call[PauseAnswer]:
    return post(f"/v1/tasks/{task_id}/resume", PauseAnswer)


def retry(task_id: int) -> Call[Retried]:
    return post(f"/v1/tasks/{task_id}/retry", Retried)
