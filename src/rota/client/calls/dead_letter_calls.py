"""The requests about dead letters: list them, read one with its history, requeue or discard them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict

from rota.client.calls.call import Call, get, post
from rota.model.answers.dead_letters import DeadCount, DeadLetterDocument, DeadLetterPage, DiscardAnswer, RequeueAnswer


class DeadFilter(TypedDict, total=False):
    """Selects dead letters. A field that is None or absent selects all."""

    name: str | None
    tag: tuple[str, str] | None
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


def requeue(
    task_ids: Sequence[int] | None, filters: DeadFilter | None = None, before: datetime | None = None
) -> Call[RequeueAnswer]:
    """By id, by filter, or all. `before`: not those that died later."""
    return post("/v1/dead/requeue", RequeueAnswer, _selection(task_ids, filters, before))


def discard(
    task_ids: Sequence[int] | None, filters: DeadFilter | None = None, before: datetime | None = None
) -> Call[DiscardAnswer]:
    """By id, by filter, or all. `before`: not those that died later."""
    return post("/v1/dead/discard", DiscardAnswer, _selection(task_ids, filters, before))


def count(filters: DeadFilter) -> Call[DeadCount]:
    """How many a filter selects. Changes nothing."""
    return post("/v1/dead/requeue", DeadCount, {**_selection(None, filters, None), "dry_run": True}, repeatable=True)


def _selection(task_ids: Sequence[int] | None, filters: DeadFilter | None, before: datetime | None) -> dict[str, Any]:
    if task_ids is not None:
        return {"ids": list(task_ids)}
    where: dict[str, Any] = {name: value for name, value in (filters or {}).items() if value is not None}
    if "tag" in where:
        where["tag"] = ":".join(where["tag"])
    bound = {} if before is None else {"before": before}
    return {"where": where, **bound} if where else {"all": True, **bound}
