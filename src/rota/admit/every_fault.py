"""Reads the requests that submit tasks, so that a fault of the structure hides no other fault.

A body of the right structure is only decoded here; admission judges it. If a field is unknown or has a wrong type, the
rest is judged at once, and the request is refused with all faults together. Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import msgspec

from rota.admit.admission import Admission
from rota.admit.body import MOST_FAULTS, read
from rota.admit.judge.arrays import Expanded, expanded, expanded_nodes
from rota.admit.judge.graphs import tasks_of
from rota.admit.planned_uploads import known_uploads
from rota.model.errors import Fault, Problem, invalid
from rota.model.request.preview_request import PlannedUpload, PreviewBatch, PreviewTask
from rota.model.request.rest import Rest
from rota.model.request.task_request import MAX_BATCH, BatchRequest, GraphRequest, TaskRequest
from rota.model.tenant import Caller

Request = TypeVar("Request", bound=TaskRequest | BatchRequest | GraphRequest)


async def read_request(
    admission: Admission, caller: Caller, body: bytes, kind: type[Request], *, arrays: bool = False
) -> Request:
    """The request. Raises a Problem with every fault if its structure has one. `arrays`: a batch may have arrays."""
    found = read(body, kind)
    if isinstance(found, Rest):
        await _refuse(admission, caller, found, arrays)
    if isinstance(found, BatchRequest):
        check_number_of_tasks(found)
    return found


@dataclass(frozen=True, slots=True)
class PreviewedRequest:
    """The tasks of a preview with arrays expanded, and the body that a submission of them would have."""

    tasks: Sequence[TaskRequest]
    single: bool
    arrays: Expanded | None
    body: bytes
    uploads: Sequence[PlannedUpload]


async def read_preview(admission: Admission, caller: Caller, body: bytes) -> PreviewedRequest:
    """The request of a preview: one task or an array of it, or a batch in which tasks may be arrays."""
    try:
        is_batch = "tasks" in msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        is_batch = False  # the strict decoder reports the fault
    if is_batch:
        batch = await read_request(admission, caller, body, PreviewBatch, arrays=True)
        tasks, arrays = _tasks_of(batch, True)
        plain = msgspec.json.encode(BatchRequest(tasks=batch.tasks)) if batch.uploads else body
        return PreviewedRequest(tasks, False, arrays, plain, batch.uploads)
    one = await read_request(admission, caller, body, PreviewTask)
    tasks, arrays = _tasks_of(one.request(), False)
    return PreviewedRequest(tasks, arrays is None, arrays, body, one.uploads)


def check_number_of_tasks(batch: BatchRequest) -> None:
    if not 1 <= len(batch.tasks) <= MAX_BATCH:
        raise invalid([Fault("/tasks", "out-of-range", f"a batch has 1 to {MAX_BATCH} tasks, not {len(batch.tasks)}")])


async def _refuse(admission: Admission, caller: Caller, rest: Rest[Request], arrays: bool) -> NoReturn:
    others: Sequence[Fault] = ()
    if rest.value is not None:
        try:
            tasks, expansion = _tasks_of(rest.value, arrays)
            uploads = known_uploads(getattr(rest.value, "uploads", ()))
            await admission.draft(
                caller,
                tasks,
                key=None,
                single=isinstance(rest.value, TaskRequest) and expansion is None,
                arrays=expansion,
                uploads=uploads,
            )
        except Problem as refusal:
            others = refusal.faults
    raise invalid(rest.with_others(others)[:MOST_FAULTS])


def _tasks_of(
    request: TaskRequest | BatchRequest | GraphRequest, arrays: bool
) -> tuple[Sequence[TaskRequest], Expanded | None]:
    if isinstance(request, GraphRequest):
        nodes = tasks_of(request)
        return nodes.tasks, nodes
    if isinstance(request, TaskRequest):
        array = expanded(request) if request.array is not None or request.items else None
        return ([request], None) if array is None else (array.tasks, array)
    check_number_of_tasks(request)
    if arrays and any(one.array is not None or one.items for one in request.tasks):
        nodes = expanded_nodes(request.tasks, ())
        return nodes.tasks, nodes
    return request.tasks, None
