"""The requests about operations: preview, start, list, read, wait, stop.

An operation is one change of all tasks (or dead letters) that a filter selects; the server works on it in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from rota.client.calls.call import Call, get, post
from rota.client.calls.conversations import Clock, Conversation, ask, until_time
from rota.client.calls.task_calls import LONGEST_WAIT_SECONDS
from rota.client.errors import WaitTimeout
from rota.client.options import check_names, plain
from rota.model.answers.operations import OperationDocument, OperationPage, OperationPreview


class OperationFilter(TypedDict, total=False):
    """Selects tasks, or dead letters for `requeue` and `discard`. A field that is None or absent selects all."""

    name: str | None
    tag: tuple[str, str] | None
    state: str | None  # several with commas
    status: str | None
    user: str | None
    schedule: str | None
    graph: int | None
    worker: str | None
    since: str | None  # by the time of submission (of death): "10m" ago, or a time with its offset
    until: str | None
    reason: str | None  # of a dead letter: part of the reason's text
    over: str | None  # of a dead letter: the limit that was exceeded


def preview(
    verb: str, changes: Mapping[str, Any] | None = None, **filters: Unpack[OperationFilter]
) -> Call[OperationPreview]:
    """How many an operation would change now; without a filter, of all. `changes`, if given, are checked."""
    body = {**_body(verb, filters), "dry_run": True}
    if changes:
        body["changes"] = {name: plain(value) for name, value in changes.items()}
    return post("/v1/operations", OperationPreview, body, repeatable=True)


def start(
    verb: str,
    filters: OperationFilter,
    *,
    changes: Mapping[str, Any] | None = None,
    before: datetime | None = None,
    everything: bool = False,
    fresh_key: str | None = None,
) -> Call[OperationDocument]:
    """`everything`: without a filter. `before`: leave out what was submitted, or died, later."""
    body = _body(verb, filters)
    if not everything:
        body.pop("all", None)
    if changes:
        body["changes"] = {name: plain(value) for name, value in changes.items()}
    if before is not None:
        body["before"] = before
    return post("/v1/operations", OperationDocument, body, key=fresh_key)


def operation(number: int, wait_seconds: float = 0.0) -> Call[OperationDocument]:
    """With `wait_seconds`, the answer comes when it has ended, or when they are over."""
    wait = min(max(wait_seconds, 0.0), LONGEST_WAIT_SECONDS)
    query = {"wait": f"{wait:.3f}"} if wait else {}
    return get(f"/v1/operations/{number}", OperationDocument, query, wait_seconds=wait)


def operations(*, state: str | None = None, limit: int | None = None, cursor: str | None = None) -> Call[OperationPage]:
    return get("/v1/operations", OperationPage, {"state": state, "limit": limit, "cursor": cursor})


def stop(number: int) -> Call[OperationDocument]:
    return post(f"/v1/operations/{number}/stop", OperationDocument, repeatable=True)


def wait(
    number: int,
    timeout_seconds: float | None,
    clock: Clock,
    longest_seconds: float = LONGEST_WAIT_SECONDS,
    seen: Callable[[OperationDocument], None] = lambda _: None,
) -> Conversation[OperationDocument]:
    """The operation once it has ended. `seen` is called with each answer, to show progress."""
    until = until_time(timeout_seconds, clock)
    while True:
        left = until - clock()
        document = yield from ask(operation(number, min(left, longest_seconds)))
        seen(document)
        if document.over:
            return document
        if left <= 0:
            raise WaitTimeout(f"operation {number} has not ended after {timeout_seconds:g} s", task_ids=())


def _body(verb: str, filters: OperationFilter) -> dict[str, Any]:
    check_names(filters, OperationFilter)
    where: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
    if "tag" in where:
        where["tag"] = ":".join(where["tag"])
    return {"verb": verb, "where": where} if where else {"verb": verb, "all": True}
