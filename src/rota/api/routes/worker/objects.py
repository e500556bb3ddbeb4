"""Objects that agents read and store for attempts. Each request proves that the attempt runs on its sender.

The proof is the identity of the agent's node, and its boot number: 63 random bits that only the agent, the leader and
the database know. A stolen worker's token alone opens nothing here, and an agent reaches its own attempts only.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from rota.api.answers import answer, filled
from rota.api.audit_sampling import note_refused
from rota.api.content import Content, artifact_response, body_stream, content_response, expected_of
from rota.api.described import BYTES, PARTIAL, TEXT, Parameter, described, one_of, read_query
from rota.api.requests import digits, existing, read_json
from rota.api.services import Services, authorise
from rota.model.answers.workers import StoredObject, StoredObjectList
from rota.model.artifact import Purpose, digest_of, identity, path_fault
from rota.model.errors import Fault, invalid, not_found
from rota.model.stage import StageDone, stage_fault
from rota.store import artifacts as rows
from rota.store import progress
from rota.store.artifacts import AttemptObject, Holder

router = APIRouter(prefix="/v1/worker/attempts/{task}/{attempt}", tags=["workers"])

_STAGE_BYTES = 4096
_MOST_DAMAGED = 10


@dataclass(frozen=True, slots=True)
class _Attempt:
    services: Services
    task: int
    number: int
    holder: Holder


async def _attempt(request: Request, task: str, attempt: str) -> _Attempt:
    services, caller = await authorise(request)
    texts = (task, attempt, request.headers.get("x-rota-boot"))
    number, turn, boot = (existing(digits(text, 19), "attempt") for text in texts)
    if number >= 2**63 or turn >= 2**15 or boot >= 2**63:
        raise not_found("attempt")
    async with services.database.engine() as connection:
        holder = await rows.find_holder(
            connection, task=number, attempt=turn, boot=boot, identity=None if caller.node is None else caller.node.id
        )
    if holder is None or (caller.node is not None and boot != caller.node.boot):
        if caller.node is not None:
            why = f"a file of attempt {turn} of task {number}, which does not run there"
            note_refused(services.audit_notes, "node.transfer", caller.user, why, caller)
        raise not_found("attempt")
    return _Attempt(services, number, turn, holder)


@router.get("/artifacts/{artifact}")
@described(BYTES, also=PARTIAL)
async def download_task_artifact(request: Request, task: str, attempt: str, artifact: str) -> Response:
    """The bytes of an artifact of the task, by its whole digest."""
    running = await _attempt(request, task, attempt)
    read_query(request)
    digest = existing(digest_of(artifact), "artifact")
    async with running.services.database.engine() as connection:
        found = await rows.named_artifact(connection, task=running.task, tenant=running.holder.tenant, digest=digest)
    return await artifact_response(request, running.services.artifacts, existing(found, "artifact"))


@router.put("/objects/{purpose}", status_code=201)
@described(
    StoredObject,
    body=BYTES,
    query=(
        Parameter("name", TEXT, "The path of the file in the work folder."),
        Parameter("damaged", TEXT, "The ids of earlier checkpoints that are of no use, with commas."),
    ),
)
async def store_object(request: Request, task: str, attempt: str, purpose: str) -> Response:
    """Stores the body under a name; the same name again replaces it.

    With a checkpoint, `damaged` lists earlier ones that are of no use, and are removed.
    """
    running = await _attempt(request, task, attempt)
    read_query(request)
    chosen = _purpose(purpose)
    name = request.query_params.get("name", "")
    fault = path_fault(name)
    if fault is not None:
        raise invalid([Fault("/name", "invalid-path", fault)])
    stored = await running.services.artifacts.store(
        running.holder,
        body_stream(request, stall_seconds=running.services.settings.http.stall_seconds),
        task=running.task,
        attempt=running.number,
        purpose=chosen,
        name=name,
        expected=expected_of(request),
        damaged=_numbers(request.query_params.get("damaged", "")),
    )
    return answer(_object(stored), 201)


@router.get("/objects")
@described(StoredObjectList, query=(Parameter("purpose", one_of(*Purpose), "Only objects for this purpose."),))
async def list_objects(request: Request, task: str, attempt: str) -> Response:
    """The objects of this and earlier attempts of the task, newest first."""
    running = await _attempt(request, task, attempt)
    read_query(request)
    asked = request.query_params.get("purpose")
    chosen = None if asked is None else _purpose(asked)
    async with running.services.database.engine() as connection:
        found = await rows.list_attempt_objects(
            connection, task=running.task, tenant=running.holder.tenant, purpose=chosen
        )
    return answer(StoredObjectList([_object(one) for one in found]))


@router.get("/objects/{number}/content")
@described(BYTES, also=PARTIAL)
async def download_object(request: Request, task: str, attempt: str, number: str) -> Response:
    """The bytes of an object of the task."""
    running = await _attempt(request, task, attempt)
    read_query(request)
    wanted = existing(digits(number), "object")
    async with running.services.database.engine() as connection:
        found = await rows.find_attempt_object(
            connection, task=running.task, tenant=running.holder.tenant, number=wanted
        )
    stored, object_key = existing(found, "object")
    content = Content(object_key, stored.sha256, stored.size_bytes, stored.name, advice="")
    return await content_response(request, running.services.artifacts, content)


@router.post("/stages", status_code=204)
@described(None, body=StageDone)
async def record_stage(request: Request, task: str, attempt: str) -> Response:
    """Records a finished stage as an event. The same stage again changes nothing."""
    running = await _attempt(request, task, attempt)
    read_query(request)
    stage = await read_json(request, StageDone, limit=_STAGE_BYTES)
    fault = stage_fault(stage)
    if fault is not None:
        raise invalid([Fault("", "out-of-range", fault)])
    async with running.services.database.engine() as connection:
        await progress.record_stage(
            connection, task=running.task, attempt=running.number, tenant=running.holder.tenant, stage=stage
        )
    return Response(status_code=204)


def _numbers(text: str) -> list[int]:
    words = text.split(",") if text else []
    numbers = [number for word in words if (number := digits(word)) is not None]
    if len(words) > _MOST_DAMAGED or len(numbers) < len(words):
        raise invalid([Fault("/damaged", "out-of-range", f"up to {_MOST_DAMAGED} numbers of objects, with commas")])
    return numbers


def _purpose(text: str) -> Purpose:
    if text not in set(Purpose):
        raise invalid([Fault("/purpose", "out-of-range", f"{text[:40]!r} is not one of {', '.join(Purpose)}")])
    return Purpose(text)


def _object(stored: AttemptObject) -> StoredObject:
    return filled(
        StoredObject,
        stored,
        purpose=Purpose(stored.purpose),
        artifact=identity(stored.sha256) if stored.object_key is None else None,
        sha256=stored.sha256.hex(),
    )
