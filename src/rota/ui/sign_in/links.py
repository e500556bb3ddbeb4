"""The pages that links lead to: of the first administrator, and of invitations.

To look at such a page changes nothing: programs that check links in mails look at them too.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from rota.api.services import services
from rota.api.sign_in.links import Opened, accept_invitation, open_link, set_up
from rota.model.errors import Fault, Problem, invalid
from rota.model.sign_in.password_rules import LEAST_ALONE, LEAST_WITH_SECOND
from rota.ui.forms import again, blank, read_form
from rota.ui.pages import START, PageRoute, page
from rota.ui.sign_in.signing_in import go_on

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)


@router.get("/setup")
async def show_setup(request: Request) -> Response:
    code = request.query_params.get("code", "")
    opened = await open_link(services(request), code)
    if opened.user is not None:
        raise _other_page()
    return page(request, "setup.html", code=code, name="", least=LEAST_ALONE, **blank())


@router.post("/setup")
async def send_setup(request: Request) -> Response:
    form = await read_form(request)
    code, name = form.get("code", ""), form.get("name", "").strip()
    cookies = Response()
    try:
        password = twice(form)
        entered = await set_up(services(request), request, cookies, code=code, name=name, password=password)
    except Problem as problem:
        if problem.slug == "link-over":
            raise
        return again(request, "setup.html", problem, code=code, name=name, least=LEAST_ALONE)
    return await go_on(request, entered, cookies, START)


@router.get("/invitation")
async def show_invitation(request: Request) -> Response:
    code = request.query_params.get("code", "")
    opened = await open_link(services(request), code)
    return page(request, "invitation.html", **_values(opened, code), **blank())


@router.post("/invitation")
async def send_invitation(request: Request) -> Response:
    form = await read_form(request)
    code = form.get("code", "")
    opened = await open_link(services(request), code)
    cookies = Response()
    try:
        entered = await accept_invitation(services(request), request, cookies, code=code, password=twice(form))
    except Problem as problem:
        if problem.slug == "link-over":
            raise
        return again(request, "invitation.html", problem, **_values(opened, code))
    return await go_on(request, entered, cookies, START)


def _values(opened: Opened, code: str) -> dict[str, Any]:
    if opened.user is None:
        raise _other_page()
    second = opened.factors.second_factor or opened.factors.needs_second
    return {
        "code": code,
        "name": opened.user.name,
        "again": opened.factors.password is not None,
        "least": LEAST_WITH_SECOND if second else LEAST_ALONE,
    }


def twice(form: dict[str, str], field: str = "password") -> str:
    """The new password, which was typed twice."""
    password = form.get(field, "")
    if password != form.get("repeated", ""):
        raise invalid([Fault("/repeated", "not-the-same", "the two passwords are not the same; type both again")])
    return password


def _other_page() -> Problem:
    return Problem("not-found", status=404, title="Not found", detail="this link is for another page")
