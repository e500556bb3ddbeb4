"""The requests about waiting: why a task waits, a preview of a task, the load of a pool, concurrency keys."""

from __future__ import annotations

from collections.abc import Sequence

from rota.client.calls.call import Call, get, post, segment
from rota.client.options import TaskSpec, request_of
from rota.model.answers import waiting as documents
from rota.model.answers.waiting import ConcurrencyKeyList, CooledKey
from rota.model.request.preview_request import PlannedUpload, PreviewBatch, PreviewTask
from rota.model.request.task_request import BatchRequest, TaskRequest


def why(task_id: int) -> Call[documents.TaskExplanation]:
    return get(f"/v1/tasks/{task_id}/why", documents.TaskExplanation)


def preview(spec: TaskSpec, uploads: Sequence[PlannedUpload] = ()) -> Call[documents.PreviewDocument]:
    """Stores nothing, so it may be repeated."""
    return preview_request(request_of(spec), uploads)


def preview_request(
    request: TaskRequest | BatchRequest, uploads: Sequence[PlannedUpload] = ()
) -> Call[documents.PreviewDocument]:
    """`uploads`: local files that the submission would upload first."""
    asked: TaskRequest | BatchRequest = request
    if uploads:
        kind = PreviewTask if isinstance(request, TaskRequest) else PreviewBatch
        fields = {name: getattr(request, name) for name in request.__struct_fields__}
        asked = kind(**fields, uploads=list(uploads))
    return post("/v1/tasks/preview", documents.PreviewDocument, asked, repeatable=True)


def load(pool: str) -> Call[documents.PoolLoadDocument]:
    return get(f"/v1/pools/{segment(pool)}/load", documents.PoolLoadDocument)


def concurrency_keys() -> Call[ConcurrencyKeyList]:
    return get("/v1/concurrency-keys", ConcurrencyKeyList)


def cool_key(name: str, seconds: float | str) -> Call[CooledKey]:
    """A repeated request only starts the cool-down anew."""
    return post(f"/v1/concurrency-keys/{segment(name)}/cool", CooledKey, {"seconds": seconds}, repeatable=True)
