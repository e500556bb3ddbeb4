"""Submitting tasks: one, an array of one, or a batch."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rota.admit.every_fault import read_request
from rota.admit.judge.arrays import expanded
from rota.api.answers import answer
from rota.api.described import IDEMPOTENCY_KEY, described
from rota.api.requests import parent_of, read_body
from rota.api.services import Services, authorise
from rota.model.answers.fields import LEFT_OUT
from rota.model.answers.tasks import Submitted, SubmittedBatch
from rota.model.errors import Fault, invalid
from rota.model.request.task_request import BatchRequest, TaskRequest
from rota.model.tenant import Caller

router = APIRouter(prefix="/v1/tasks", tags=["tasks"])


@router.post("", status_code=201)
@described(
    Submitted,
    also={200: (Submitted, "The idempotency key was used before for the same task.")},
    body=TaskRequest,
    headers=(IDEMPOTENCY_KEY,),
)
async def submit_task(request: Request) -> Response:
    """Submits one task, or an array of it. 201: it is stored durably."""
    services, caller = await authorise(request)
    body = await read_body(request, limit=services.settings.body_limit_bytes)
    task = await read_request(services.admission, caller, body, TaskRequest)
    if task.array is not None or task.items:
        return await _submit_array(services, caller, request, task, body)
    admitted = await services.admission.submit(
        caller, [task], key=request.headers.get("idempotency-key"), body=body, single=True, parent=parent_of(request)
    )
    created = not admitted.replayed
    state = admitted.rows[0].state.label if created else LEFT_OUT
    document = Submitted(id=admitted.ids[0], created=created, state=state, array=LEFT_OUT)
    return answer(document, 201 if created else 200)


async def _submit_array(
    services: Services, caller: Caller, request: Request, task: TaskRequest, body: bytes
) -> Response:
    """An array: a graph of its own, whose id is that of the array."""
    if task.ref is not None or task.idempotency_key is not None:
        raise invalid([Fault("/array", "invalid-command", "an array has no ref, and its key is the request's header")])
    arrays = expanded(task)
    admitted = await services.admission.submit(
        caller,
        arrays.tasks,
        key=request.headers.get("idempotency-key"),
        body=body,
        single=False,
        graph="",
        arrays=arrays,
    )
    assert admitted.graph is not None, "an array is a graph"
    state = admitted.rows[0].state.label if admitted.rows else LEFT_OUT
    document = Submitted(id=admitted.graph, created=not admitted.replayed, array=len(admitted.ids), state=state)
    return answer(document, 200 if admitted.replayed else 201)


@router.post("/batch", status_code=201)
@described(SubmittedBatch, body=BatchRequest, headers=(IDEMPOTENCY_KEY,))
async def submit_batch(request: Request) -> Response:
    """Submits up to 10,000 tasks, all or none. `after` may name a `ref` of the same batch."""
    services, caller = await authorise(request)
    body = await read_body(request, limit=services.settings.body_limit_bytes)
    batch = await read_request(services.admission, caller, body, BatchRequest)
    admitted = await services.admission.submit(
        caller,
        batch.tasks,
        key=request.headers.get("idempotency-key"),
        body=body,
        single=False,
        parent=parent_of(request),
    )
    return answer(SubmittedBatch(ids=admitted.ids, replayed=admitted.replayed), 201)
