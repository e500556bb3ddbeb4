"""The requests about dead letters: find them, look at one with its whole history, run them again, let them go.

The companion of `calls.py`, under the same rule: values only, nothing here connects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from rota.client.calls.call import Call, get, post
from rota.model.answers import tasks
from rota.model.answers.dead_letters import DeadCount, DeadDocument, DiscardAnswer, RequeueAnswer


class DeadFilter(TypedDict, total=False):
    """Which dead letters. What is None or absent does not matter."""

    name: str | None
    tag: tuple[str, str] | None
    reason: str | None  # part of the sentence
    over: str | None  # which limit it went over: cap, memory, disk, processes, files
    since: str | None  # when it died: "10m", or a time with its offset
    until: str | None
    graph: int | None
    schedule: str | None


def dead(
    wanted: DeadFilter, *, tenant: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[tasks.TaskPage]:
    query = {**_said(wanted), "tenant": tenant, "limit": limit, "cursor": cursor}
    return get("/v1/dead", tasks.TaskPage, query)


def letter(task_id: int) -> Call[DeadDocument]:
    return get(f"/v1/dead/{task_id}", DeadDocument)


def requeue(
    task_ids: Sequence[int] | None, wanted: DeadFilter | None = None, before: datetime | None = None
) -> Call[RequeueAnswer]:
    """These, those that a filter means, or all. `before`: leaves what died later."""
    return post("/v1/dead/requeue", RequeueAnswer, _chosen(task_ids, wanted, before))


def discard(
    task_ids: Sequence[int] | None, wanted: DeadFilter | None = None, before: datetime | None = None
) -> Call[DiscardAnswer]:
    """These, those that a filter means, or all. `before`: leaves what died later."""
    return post("/v1/dead/discard", DiscardAnswer, _chosen(task_ids, wanted, before))


def count(wanted: DeadFilter) -> Call[DeadCount]:
    """How many a filter means. Nothing is changed."""
    return post("/v1/dead/requeue", DeadCount, {**_chosen(None, wanted, None), "dry_run": True}, repeatable=True)


def _said(wanted: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: value for name, value in wanted.items() if value is not None}
    if "tag" in said:
        said["tag"] = ":".join(said["tag"])
    return said


def _chosen(task_ids: Sequence[int] | None, wanted: DeadFilter | None, before: datetime | None) -> dict[str, Any]:
    if task_ids is not None:
        return {"ids": list(task_ids)}
    where = _said(wanted or {})
    bound = {} if before is None else {"before": before}
    return {"where": where, **bound} if where else {"all": True, **bound}
