"""Where somebody arrives who is signed in: who they are, and where they may go."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rota.ui.pages import PageRoute, page, signed_in

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)


@router.get("/")
async def show_start(request: Request) -> Response:
    _, caller = await signed_in(request)
    return page(request, "start.html", caller=caller)
