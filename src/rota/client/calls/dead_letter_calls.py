"""The requests about dead letters: list them, read one with its history, requeue or discard them by id.

By filter they are requeued and discarded by operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from rota.client.calls.call import Call, get, post
from rota.model.answers.dead_letters import DeadLetterDocument, DeadLetterPage, DiscardAnswer, RequeueAnswer


class DeadFilter(TypedDict, total=False):
    """Selects dead letters. A field that is None or absent selects all."""

    name: str | None
    tag: tuple[str, str] | None
    user: str | None
    reason: str | None  # part of the reason's text
    over: str | None  # the limit that was exceeded: cap, memory, disk, processes, files
    since: str | None  # by the time of death: "10m" ago, or a time with its offset
    until: str | None
    graph: int | None
    schedule: str | None


def dead(
    filters: DeadFilter, *, tenant: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[DeadLetterPage]:
    return get("/v1/dead", DeadLetterPage, {**filters, "tenant": tenant, "limit": limit, "cursor": cursor})


def letter(task_id: int) -> Call[DeadLetterDocument]:
    return get(f"/v1/dead/{task_id}", DeadLetterDocument)


def requeue(task_ids: Sequence[int]) -> Call[RequeueAnswer]:
    return post("/v1/dead/requeue", RequeueAnswer, {"ids": list(task_ids)})


def discard(task_ids: Sequence[int]) -> Call[DiscardAnswer]:
    return post("/v1/dead/discard", DiscardAnswer, {"ids": list(task_ids)})
