"""The page to sign in with a name and a password."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rota.ui.pages import PageRoute, page, safe_next

router = APIRouter(prefix="/ui/sign-in", route_class=PageRoute, include_in_schema=False)


@router.get("")
async def show_sign_in(request: Request) -> Response:
    return page(request, "sign_in.html", next=safe_next(request.query_params.get("next")))
