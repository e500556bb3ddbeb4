"""Files that pages refer to, from the package. Their addresses change with their contents, so browsers keep them."""

from __future__ import annotations

import hashlib
from importlib import resources

from fastapi import APIRouter, Request, Response

from rota.model.errors import not_found

router = APIRouter(prefix="/ui/static", include_in_schema=False)

_TYPES = {"style.css": "text/css; charset=utf-8"}
_FILES = {name: resources.files("rota.ui").joinpath("static", name).read_bytes() for name in _TYPES}
_SUMS = {name: hashlib.sha256(content).hexdigest()[:12] for name, content in _FILES.items()}


def address_of(name: str) -> str:
    """For a template: where the file is, as it is now."""
    return f"{router.prefix}/{name}?{_SUMS[name]}"


@router.get("/{name}")
async def send_static(request: Request, name: str) -> Response:
    if name not in _FILES:
        raise not_found("file")
    # During an update, a node may be asked for another version's file: nobody keeps that one.
    kept = "public, max-age=31536000, immutable" if request.url.query == _SUMS[name] else "no-store"
    return Response(
        _FILES[name], media_type=_TYPES[name], headers={"cache-control": kept, "x-content-type-options": "nosniff"}
    )
