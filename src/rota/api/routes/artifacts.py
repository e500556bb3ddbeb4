"""Artifacts: uploaded files and the outputs of tasks, named by the digest of their bytes."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rota.api.answers import answer, filled
from rota.api.audited import audit
from rota.api.content import artifact_response, body_stream, expected_of
from rota.api.described import BYTES, CURSOR, LIMIT, PARTIAL, TEXT, Parameter, described, read_query
from rota.api.requests import limit_of
from rota.api.services import authorise
from rota.model.answers.artifacts import ArtifactDocument, ArtifactPage
from rota.model.artifact import identity, name_fault
from rota.model.errors import Fault, invalid
from rota.store import artifacts
from rota.store.artifacts import ArtifactRow
from rota.store.database import AnyConnection
from rota.store.reading import NEWEST

router = APIRouter(prefix="/v1/artifacts", tags=["artifacts"])


@router.post("", status_code=201)
@described(
    ArtifactDocument,
    also={200: (ArtifactDocument, "The tenant has these bytes already.")},
    body=BYTES,
    query=(Parameter("name", TEXT, "A name for lists and downloads."),),
)
async def upload_artifact(request: Request) -> Response:
    """Stores the body. The same bytes again are the same artifact: 200 instead of 201."""
    services, caller = await authorise(request)
    query = read_query(request)
    name = query.get("name", "")
    fault = name_fault(name) if name else None
    if fault is not None:
        raise invalid([Fault("/name", "invalid-name", fault)])
    expected = expected_of(request)
    body = body_stream(request, stall_seconds=services.settings.http.stall_seconds)
    artifact, fresh = await services.artifacts.upload(caller, body, name=name, expected=expected)
    return answer(_artifact(artifact), 201 if fresh else 200)


@router.get("")
@described(ArtifactPage, query=(LIMIT, CURSOR))
async def list_artifacts(request: Request) -> Response:
    """The artifacts of the tenant, newest first."""
    services, caller = await authorise(request)
    query = read_query(request)
    limit = limit_of(query)
    before = services.cursors.read(query.get("cursor"), NEWEST)
    async with services.database.tenant(caller.tenant_id) as connection:
        rows = await artifacts.list_artifacts(connection, caller.tenant_id, before=before, limit=limit + 1)
    following = services.cursors.make(rows[limit - 1].id) if len(rows) > limit else None
    return answer(ArtifactPage(artifacts=[_artifact(row) for row in rows[:limit]], next=following))


@router.get("/{artifact}")
@described(ArtifactDocument)
async def get_artifact(request: Request, artifact: str) -> Response:
    """One artifact, by its digest or a unique beginning of it."""
    services, caller = await authorise(request)
    read_query(request)
    return answer(_artifact(await services.artifacts.find(caller.tenant_id, artifact)))


@router.get("/{artifact}/content")
@described(BYTES, also=PARTIAL)
async def download_artifact(request: Request, artifact: str) -> Response:
    """The bytes, or a `Range` of them. A whole download is checked against its digest before its end is sent."""
    services, caller = await authorise(request)
    read_query(request)
    found = await services.artifacts.find(caller.tenant_id, artifact)
    return await artifact_response(request, services.artifacts, found)


@router.delete("/{artifact}", status_code=204)
@described(None)
async def remove_artifact(request: Request, artifact: str) -> Response:
    """Removes an artifact, unless a live task uses it."""
    services, caller = await authorise(request)
    read_query(request)

    async def note(connection: AnyConnection, gone: ArtifactRow) -> None:
        before = {"name": gone.name, "bytes": gone.size_bytes}
        await audit(connection, caller, "artifact.remove", identity(gone.sha256), before=before)

    await services.artifacts.remove(caller.tenant_id, artifact, note=note)
    return Response(status_code=204)


def _artifact(row: ArtifactRow) -> ArtifactDocument:
    return filled(ArtifactDocument, row, id=identity(row.sha256), sha256=row.sha256.hex())
