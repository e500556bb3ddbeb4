"""The requests about tasks: submit, read, wait, cancel, extend, pause, retry, edit, hold.

Each function returns a `Call`. Nothing here connects, waits or reads a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import msgspec

from rota.client.calls import repeats
from rota.client.calls.call import Call, get, patch, post, query_of
from rota.client.options import (
    Duration,
    LogOptions,
    TaskFilter,
    TaskSpec,
    check_names,
    plain,
    plain_duration,
    request_of,
)
from rota.model.answers import tasks as answers
from rota.model.answers.graphs import GraphHeld
from rota.model.answers.task_changes import CancelAnswer, CancelManyAnswer, Extended, HoldAnswer, PauseAnswer, Retried
from rota.model.request.task_request import BatchRequest, TaskRequest

LONGEST_WAIT_SECONDS = 30.0  # the server's limit for one waiting request


class HoldReport(HoldAnswer, frozen=True, kw_only=True):
    """A hold or release of ids among which are graphs, each with its own answer."""

    graphs: list[GraphHeld] = []  # noqa: RUF012 -- msgspec copies it


class EncodedEnds(msgspec.Struct, frozen=True):
    """The answer to `wait_for_any`, its parts not yet decoded: their size is known, and each use gets its own value."""

    ended: list[msgspec.Raw] = []
    documents: list[msgspec.Raw] = []


# --- submitting


def submit(spec: TaskSpec, fresh_key: str | None) -> Call[answers.Submitted]:
    """`fresh_key` is used if the task has no idempotency key, so that a lost answer can be requested again."""
    return submit_request(request_of(spec), fresh_key)


def submit_request(request: TaskRequest, fresh_key: str | None) -> Call[answers.Submitted]:
    body = msgspec.structs.replace(request, idempotency_key=None)
    call = post(
        "/v1/tasks",
        answers.Submitted,
        body,
        key=fresh_key if request.idempotency_key is None else request.idempotency_key,
    )
    return replace(call, joins=True)


def submit_batch(specs: Sequence[TaskSpec], fresh_key: str | None) -> Call[answers.SubmittedBatch]:
    """One request under one idempotency key, so that a lost answer can be requested again."""
    return submit_requests([request_of(spec) for spec in specs], fresh_key)


def submit_requests(requests: Sequence[TaskRequest], fresh_key: str | None) -> Call[answers.SubmittedBatch]:
    call = post("/v1/tasks/batch", answers.SubmittedBatch, BatchRequest(tasks=list(requests)), key=fresh_key)
    return replace(call, joins=True)


# --- reading


def task(task_id: int) -> Call[answers.TaskDocument]:
    return get(f"/v1/tasks/{task_id}", answers.TaskDocument)


def task_when_ended(task_id: int, wait_seconds: float) -> Call[answers.TaskDocument]:
    wait = min(max(wait_seconds, 0.0), LONGEST_WAIT_SECONDS)
    return get(f"/v1/tasks/{task_id}", answers.TaskDocument, {"wait": f"{wait:.3f}"}, wait_seconds=wait)


def wait_for(task_ids: Sequence[int], wait_seconds: float, *, graphs: bool = False) -> Call[answers.WaitAnswer]:
    """`graphs`: the answer names the graphs that these tasks began because they may submit others."""
    wait = round(min(max(wait_seconds, 0.0), LONGEST_WAIT_SECONDS), 3)
    body = {"ids": list(task_ids), "timeout": wait} | ({"graphs": True} if graphs else {})
    call = post("/v1/tasks/wait", answers.WaitAnswer, body, repeatable=True)
    return replace(call, wait_seconds=wait)


def wait_for_any(
    task_ids: Sequence[int], also: Sequence[int], wait_seconds: float, *, documents: bool
) -> Call[EncodedEnds]:
    """Answered as soon as one of the tasks has ended; with those of `also` that have ended by then."""
    wait = round(min(max(wait_seconds, 0.0), LONGEST_WAIT_SECONDS), 3)
    body = {"ids": list(task_ids), "timeout": wait, "any": True, "also": list(also), "documents": documents}
    return replace(post("/v1/tasks/wait", EncodedEnds, body, repeatable=True), wait_seconds=wait)


def tasks(*, fold_arrays: bool = False, **filters: Unpack[TaskFilter]) -> Call[answers.TaskPage]:
    check_names(filters, TaskFilter)
    return get("/v1/tasks", answers.TaskPage, {**filters, "fold": "arrays" if fold_arrays else None})


def attempts(task_id: int, *, limit: int | None = None, cursor: str | None = None) -> Call[answers.AttemptList]:
    """`limit` and `cursor` page through the tasks of an array or a graph."""
    return get(f"/v1/tasks/{task_id}/attempts", answers.AttemptList, {"limit": limit, "cursor": cursor})


def results(task_id: int, *, limit: int | None = None, cursor: str | None = None) -> Call[answers.ResultPage]:
    """The result of a task, or a page of those of an array's or a graph's tasks."""
    return get(f"/v1/tasks/{task_id}/results", answers.ResultPage, {"limit": limit, "cursor": cursor})


def log(task_id: int, **options: Unpack[LogOptions]) -> Call[bytes]:
    check_names(options, LogOptions)
    return Call("GET", f"/v1/tasks/{task_id}/log", bytes, query=query_of(options), repeatable=True)


def log_stream(
    task_id: int,
    *,
    follow: bool,
    after: int | None,
    progress: bool,
    page: Mapping[str, int | str | None],
    options: LogOptions,
) -> Call[bytes]:
    """To be streamed: one JSON line per chunk. `after` is the last chunk that was read of that attempt."""
    kind = "follow" if follow else "lines"
    query = query_of({kind: "true", "after": after, "progress": "true" if progress else None, **page, **options})
    return Call("GET", f"/v1/tasks/{task_id}/log", bytes, query=query, repeatable=True)


# --- changing


def because(reason: str) -> dict[str, str] | None:
    """The body of a change that may have a reason. None without one: an older server takes no body."""
    return {"reason": reason} if reason else None


def cancel(task_id: int, reason: str = "") -> Call[CancelAnswer]:
    call = post(f"/v1/tasks/{task_id}/cancel", CancelAnswer, because(reason), repeatable=True)
    return replace(call, if_repeated=partial(repeats.cancelled, task_id))


def cancel_many(task_ids: Sequence[int], reason: str = "") -> Call[CancelManyAnswer]:
    body = {"ids": list(task_ids), **(because(reason) or {})}
    call = post("/v1/tasks/cancel", CancelManyAnswer, body, repeatable=True)
    return replace(call, if_repeated=repeats.cancelled_many)


def extend(
    task_id: int, *, by: Duration | None = None, cap: Duration | None = None, reason: str = ""
) -> Call[Extended]:
    """Longer `by` a duration, or to a new `cap`. Only the latter may be repeated."""
    body = {"by": plain_duration(by), "cap": plain_duration(cap), "reason": reason or None}
    given = {name: value for name, value in body.items() if value is not None}
    return post(f"/v1/tasks/{task_id}/extend", Extended, given, repeatable=by is None)


def pause(task_id: int, reason: str = "") -> Call[PauseAnswer]:
    return post(f"/v1/tasks/{task_id}/pause", PauseAnswer, because(reason), repeatable=True)


def resume(task_id: int, reason: str = "") -> Call[PauseAnswer]:
    return post(f"/v1/tasks/{task_id}/resume", PauseAnswer, because(reason), repeatable=True)


def retry(task_id: int, reason: str = "") -> Call[Retried]:
    call = post(f"/v1/tasks/{task_id}/retry", Retried, because(reason), repeatable=True)
    return replace(call, if_repeated=partial(repeats.retried, task_id))


def edit(task_id: int, changes: Mapping[str, Any], version: int) -> Call[answers.TaskDocument]:
    body = {name: plain(value) for name, value in changes.items()}
    call = patch(f"/v1/tasks/{task_id}", answers.TaskDocument, body)
    # Not repeatable: the first one changes the version.
    return replace(call, headers={"if-match": str(version)}, repeatable=False)


def hold(task_id: int, reason: str = "") -> Call[PauseAnswer]:
    return post(f"/v1/tasks/{task_id}/hold", PauseAnswer, {"reason": reason}, repeatable=True)


def release(task_id: int, reason: str = "") -> Call[PauseAnswer]:
    return post(f"/v1/tasks/{task_id}/release", PauseAnswer, because(reason), repeatable=True)


def hold_many(task_ids: Sequence[int], reason: str = "") -> Call[HoldAnswer]:
    return post("/v1/tasks/hold", HoldAnswer, {"ids": list(task_ids), "reason": reason}, repeatable=True)


def release_many(task_ids: Sequence[int], reason: str = "") -> Call[HoldAnswer]:
    body = {"ids": list(task_ids), **(because(reason) or {})}
    return post("/v1/tasks/release", HoldAnswer, body, repeatable=True)
