"""The requests that change a waiting task: edit, hold, release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

from rota.client.calls import task_calls
from rota.client.calls.call import Call, patch, post
from rota.client.calls.conversations import Conversation, ask
from rota.client.options import Duration, plain_duration
from rota.model.answers.graphs import GraphHeld
from rota.model.answers.task_changes import HoldAnswer, PauseAnswer
from rota.model.answers.tasks import TaskDocument


class EditOptions(TypedDict, total=False):
    """The options of a waiting task that can be changed; those not named stay as they are."""

    priority: int
    lane: str
    cap: Duration
    tolerance: Duration
    pool: str


class HoldReport(HoldAnswer, frozen=True, kw_only=True):
    """A hold or release of ids among which are graphs, each with its own answer."""

    graphs: list[GraphHeld] = []  # noqa: RUF012 -- msgspec copies it


def edit(task_id: int, changes: Mapping[str, Any], version: int) -> Call[TaskDocument]:
    body = {name: plain_duration(value) for name, value in changes.items()}
    call = patch(f"/v1/tasks/{task_id}", TaskDocument, body)
    # Not repeatable: the first one changes the version.
    return replace(call, headers={"if-match": str(version)}, repeatable=False)


def edited(task_id: int, changes: Mapping[str, Any], version: int | None) -> Conversation[TaskDocument]:
    """The edit of a given version; None: of the current one."""
    if version is None:
        version = (yield from ask(task_calls.task(task_id))).version
    return (yield from ask(edit(task_id, changes, version or 0)))


def hold(task_id: int, reason: str = "") -> Call[PauseAnswer]:
    return post(f"/v1/tasks/{task_id}/hold", PauseAnswer, {"reason": reason}, repeatable=True)


def release(task_id: int) -> Call[PauseAnswer]:
    return post(f"/v1/tasks/{task_id}/release", PauseAnswer, repeatable=True)


def hold_many(task_ids: Sequence[int], reason: str = "") -> Call[HoldAnswer]:
    return post("/v1/tasks/hold", HoldAnswer, {"ids": list(task_ids), "reason": reason}, repeatable=True)


def release_many(task_ids: Sequence[int]) -> Call[HoldAnswer]:
    return post("/v1/tasks/release", HoldAnswer, {"ids": list(task_ids)}, repeatable=True)
