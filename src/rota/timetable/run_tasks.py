"""The tasks that a run of a schedule submits, with arrays and graphs expanded. Pure.

A schedule of `tasks`, of an array or of a task that may submit starts a graph each time, any other schedule one task.
The schedule's own settings (lane, concurrency) are added here, so that checking and running a schedule use the same
tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from rota.admit.judge.arrays import Expanded, expanded
from rota.admit.judge.attachments import references_in
from rota.admit.judge.facts import Facts, KnownArtifact
from rota.admit.judge.graphs import tasks_of
from rota.model.request.task_request import GraphRequest, TaskRequest
from rota.model.schedule.request import ScheduledWork
from rota.model.schedule.schedule import Schedule

LANE = "periodic"


@dataclass(frozen=True, slots=True)
class Work:
    """The tasks of a run. `graph`: its name (empty: that of its first task); None: the run is a single task."""

    tasks: Sequence[TaskRequest]
    graph: str | None = None
    arrays: Expanded | None = None
    from_task: bool = False  # its graph is that of one task, which may submit others


_decode = msgspec.json.Decoder(ScheduledWork).decode


@lru_cache(maxsize=256)  # for the runs of a schedule that catches up
def _whole(text: str, schedule: str) -> Work:
    """The tasks of a graph or an array."""
    work = _decode(text)
    if work.graph is None and len(work.tasks) == 1:
        array = expanded(work.tasks[0])
        return Work(array.tasks, "", array)
    nodes = tasks_of(GraphRequest(name=work.graph or schedule, tasks=work.tasks))
    return Work(nodes.tasks, work.graph or schedule, nodes)


def work_of(schedule: Schedule, facts: Facts) -> Work:
    """The tasks a run submits now, in the periodic lane unless a task or its category names another. Raises Problem."""
    plain = _decode(schedule.request)
    if plain.graph is None and len(plain.tasks) == 1 and plain.tasks[0].array is None and not plain.tasks[0].items:
        task = plain.tasks[0]
        return Work([_with_settings(task, schedule, facts)], "" if task.may_submit else None, from_task=task.may_submit)
    work = _whole(schedule.request, schedule.name)
    return Work([_with_settings(task, schedule, facts) for task in work.tasks], work.graph, work.arrays)


def _with_settings(task: TaskRequest, schedule: Schedule, facts: Facts) -> TaskRequest:
    category = facts.categories.get(task.category) if task.category is not None else None
    lane = LANE if task.lane is None and (category is None or category.lane is None) else task.lane
    if schedule.at_most is None:
        return task if lane == task.lane else msgspec.structs.replace(task, lane=lane)
    return msgspec.structs.replace(
        task, lane=lane, concurrency_key=f"schedule:{schedule.id}", concurrency_limit=schedule.at_most
    )


def known_artifacts(
    schedule: Schedule, work: Work, names: Mapping[tuple[int, bytes], str]
) -> dict[str, tuple[KnownArtifact, ...]]:
    """The artifacts of the schedule that its tasks name and that exist (`names`), by the prefixes used in the tasks."""
    found: dict[str, tuple[KnownArtifact, ...]] = {}
    for digits in references_in(work.tasks):
        digest = next((one for one in schedule.artifacts if one.hex().startswith(digits)), b"")
        if (schedule.tenant, digest) in names:
            found[digits] = (KnownArtifact(digest, names[schedule.tenant, digest]),)
    return found
