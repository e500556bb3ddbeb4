"""Artifacts: files that people upload and tasks leave behind, named by the digest of their bytes."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rota.api.content import Content, body_stream, content_response, expected_of
from rota.api.documents import Document, answer, instant
from rota.api.requests import check_query, limit_of
from rota.api.services import authorise
from rota.model.artifact import identity, name_fault
from rota.model.errors import Fault, invalid
from rota.model.tenant import Scope
from rota.store.artifacts import ArtifactRow, list_artifacts
from rota.store.reading import NEWEST

router = APIRouter(prefix="/v1/artifacts", tags=["artifacts"])


@router.post("", status_code=201)
async def upload_artifact(request: Request) -> Response:
    """Stores the body as it comes. The same bytes again are the same artifact: 200 instead of 201."""
    services, caller = await authorise(request, Scope.WRITE)
    query = request.query_params
    check_query(query, {"name"})
    name = query.get("name", "")
    fault = name_fault(name) if name else None
    if fault is not None:
        raise invalid([Fault("/name", "invalid-name", fault)])
    expected = expected_of(request)
    artifact, fresh = await services.artifacts.upload(caller, body_stream(request), name=name, expected=expected)
    return answer(artifact_document(artifact), 201 if fresh else 200)


@router.get("")
async def list_all(request: Request) -> Response:
    """One page, newest first."""
    services, caller = await authorise(request, Scope.READ)
    query = request.query_params
    check_query(query, {"limit", "cursor"})
    limit = limit_of(query)
    before = services.cursors.read(query.get("cursor"), NEWEST)
    async with services.database.tenant(caller.tenant_id) as connection:
        rows = await list_artifacts(connection, caller.tenant_id, before=before, limit=limit + 1)
    following = services.cursors.make(rows[limit - 1].id) if len(rows) > limit else None
    return answer({"artifacts": [artifact_document(row) for row in rows[:limit]], "next": following})


@router.get("/{artifact}")
async def read_artifact(request: Request, artifact: str) -> Response:
    services, caller = await authorise(request, Scope.READ)
    check_query(request.query_params, set())
    return answer(artifact_document(await services.artifacts.find(caller.tenant_id, artifact)))


@router.get("/{artifact}/content")
async def read_content(request: Request, artifact: str) -> Response:
    """The bytes; a part of them with `Range`. A whole read is checked against the digest before its end is sent."""
    services, caller = await authorise(request, Scope.READ)
    check_query(request.query_params, set())
    found = await services.artifacts.find(caller.tenant_id, artifact)
    content = Content(found.object_key, found.sha256, found.size_bytes, found.name)
    return await content_response(request, services.artifacts, content)


@router.delete("/{artifact}", status_code=204)
async def remove_artifact(request: Request, artifact: str) -> Response:
    """Refused while a task that has not ended names it."""
    services, caller = await authorise(request, Scope.WRITE)
    check_query(request.query_params, set())
    await services.artifacts.remove(caller.tenant_id, artifact)
    return Response(status_code=204)


def artifact_document(row: ArtifactRow) -> Document:
    return {
        "id": identity(row.sha256),
        "sha256": row.sha256.hex(),
        "size_bytes": row.size_bytes,
        "name": row.name,
        "created_by": row.created_by,
        "created_at": instant(row.created_at),
        "kept_until": instant(row.kept_until),
    }
