"""The requests that submit, preview or schedule a manifest: a single task alone, a graph as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from rota.client.calls import graph_calls, schedule_calls, task_calls, waiting_calls
from rota.client.calls.call import Call
from rota.client.calls.conversations import Conversation, ask
from rota.model.answers.graphs import SubmittedGraph
from rota.model.answers.schedules import AppliedSchedule, ScheduleDocument, SchedulePreview
from rota.model.answers.tasks import Submitted
from rota.model.answers.waiting import PreviewDocument
from rota.model.request.preview_request import PlannedUpload
from rota.model.request.task_request import BatchRequest, TaskRequest
from rota.model.schedule.schedule import RuleKind

if TYPE_CHECKING:
    from rota.client.manifest.load import Manifest


def submit(manifest: Manifest, fresh_key: str | None) -> Call[Submitted]:
    """The call for a manifest of one task."""
    return task_calls.submit_request(manifest.tasks[0], fresh_key)


def submit_graph(manifest: Manifest, fresh_key: str | None) -> Call[SubmittedGraph]:
    """Under its name, or else the name of its file."""
    return graph_calls.submit(manifest.graph_name, manifest.tasks, fresh_key)


def preview(manifest: Manifest) -> Call[PreviewDocument]:
    asked = BatchRequest(tasks=list(manifest.tasks)) if manifest.is_graph else manifest.tasks[0]
    return waiting_calls.preview_request(asked)


def submitted(manifest: Manifest, fresh_key: str | None) -> Conversation[dict[str, int]]:
    """Submits it, and returns the ids by the tasks' names."""
    if manifest.schedule is not None:
        raise ValueError(f"{manifest.file} has a schedule: use client.schedule_manifest(…)")
    if not manifest.is_graph:
        task = yield from ask(submit(manifest, fresh_key))
        return {manifest.labels()[0]: task.id}
    graph = yield from ask(submit_graph(manifest, fresh_key))
    return graph.tasks


def scheduled(
    manifest: Manifest,
    *,
    name: str | None = None,
    options: Mapping[str, Any],
    tasks: Sequence[TaskRequest] | None = None,
) -> Call[ScheduleDocument]:
    """Makes its schedule. `name`, `options` and `tasks` override the file."""
    work = schedule_work(manifest, tasks)
    return schedule_calls.add(schedule_name(manifest, name), schedule_options(manifest, options), work)


def applied(
    manifest: Manifest, *, options: Mapping[str, Any], tasks: Sequence[TaskRequest] | None = None
) -> Call[AppliedSchedule]:
    """Makes its schedule, or changes it to be like the file."""
    work = schedule_work(manifest, tasks)
    return schedule_calls.apply(schedule_name(manifest), schedule_options(manifest, options), work)


def preview_schedule(
    manifest: Manifest,
    *,
    name: str | None = None,
    options: Mapping[str, Any],
    tasks: Sequence[TaskRequest] | None = None,
    uploads: Sequence[PlannedUpload] = (),
) -> Call[SchedulePreview]:
    called, work = schedule_name(manifest, name), schedule_work(manifest, tasks)
    return schedule_calls.preview(called, schedule_options(manifest, options), work, uploads=uploads)


def schedule_name(manifest: Manifest, name: str | None = None) -> str:
    own = None if manifest.schedule is None or manifest.schedule.name is UNSET else manifest.schedule.name
    return name or own or manifest.graph_name


def schedule_options(manifest: Manifest, options: Mapping[str, Any]) -> Any:
    """The schedule's options; a rule in `options` replaces the rule of the file."""
    own: dict[str, Any] = {} if manifest.schedule is None else msgspec.to_builtins(manifest.schedule)
    own.pop("name", None)
    if any(kind.value in options for kind in RuleKind):
        own = {key: value for key, value in own.items() if key != "anchor" and key not in set(RuleKind)}
    return {**own, **options}


def schedule_work(manifest: Manifest, tasks: Sequence[TaskRequest] | None = None) -> schedule_calls.Work:
    return schedule_calls.Work(tasks or manifest.tasks, manifest.is_graph, manifest.name)
