"""The requests about waiting: why a task waits, a preview of a task, the load of a pool."""

from __future__ import annotations

from collections.abc import Sequence

from rota.client.calls.call import Call, get, post, segment
from rota.client.options import TaskSpec, request_of
from rota.model.answers import waiting as documents
from rota.model.request.task_request import BatchRequest, TaskRequest


def why(task_id: int) -> Call[documents.TaskExplanation]:
    return get(f"/v1/tasks/{task_id}/why", documents.TaskExplanation)


def preview(spec: TaskSpec) -> Call[documents.PreviewDocument]:
    """Stores nothing, so it may be repeated."""
    return preview_request(request_of(spec))


def preview_batch(specs: Sequence[TaskSpec]) -> Call[documents.PreviewDocument]:
    return preview_request(BatchRequest(tasks=[request_of(spec) for spec in specs]))


def preview_request(request: TaskRequest | BatchRequest) -> Call[documents.PreviewDocument]:
    return post("/v1/tasks/preview", documents.PreviewDocument, request, repeatable=True)


def load(pool: str) -> Call[documents.PoolLoadDocument]:
    return get(f"/v1/pools/{segment(pool)}/load", documents.PoolLoadDocument)
