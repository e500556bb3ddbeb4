"""Where somebody arrives who is signed in: who they are, at which tenant, and where they may go."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rota.api.routes.sign_in.sessions import switch
from rota.api.sign_in.cookies import with_cookies
from rota.api.sign_in.own_account import own_account
from rota.ui.forms import read_form
from rota.ui.pages import START, PageRoute, page, redirect, signed_in

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)


@router.get("/")
async def show_start(request: Request) -> Response:
    services, caller = await signed_in(request)
    return page(request, "start.html", caller=caller, account=await own_account(services, caller))


@router.post("/switch")
async def look_at_tenant(request: Request) -> Response:
    """The session looks at another tenant."""
    services, caller = await signed_in(request)
    cookies = Response()
    await switch(services, request, cookies, caller, (await read_form(request)).get("tenant", ""))
    return with_cookies(redirect(START), cookies)
