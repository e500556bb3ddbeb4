"""The JSON Schema of manifests, for editors. It needs no token."""

from __future__ import annotations

from fastapi import APIRouter, Response

from rota.api.described import Media, described
from rota.client.manifest.schema import schema_text

router = APIRouter(prefix="/v1/schemas", tags=["schemas"])

_TEXT = schema_text()


@router.get("/rota.yaml.json")
@described(Media("application/schema+json", {"type": "object"}))
async def get_manifest_schema() -> Response:
    """The JSON Schema of a `rota.yaml`."""
    return Response(_TEXT, media_type="application/schema+json", headers={"cache-control": "public, max-age=3600"})
