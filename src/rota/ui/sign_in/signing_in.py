"""The pages to sign in with a name, a password and perhaps a code, and out again."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from rota.api.routes.sign_in.sessions import end_one
from rota.api.services import services
from rota.api.sign_in.cookies import clear_session, own_address, with_cookies
from rota.api.sign_in.second_factors import Enrolment, begin_enrolment
from rota.api.sign_in.signing_in import Entered, Ticket, sign_in, sign_in_with_code, step_of_ticket
from rota.model.errors import Problem
from rota.ui.forms import again, blank, read_form
from rota.ui.pages import SIGN_IN, PageRoute, page, redirect, safe_next, signed_in
from rota.ui.sign_in.oidc import SIGNED_OUT, began_at_provider

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)


@router.get("/sign-in")
async def show_sign_in(request: Request) -> Response:
    return page(request, "sign_in.html", next=safe_next(request.query_params.get("next")), name="", **blank())


@router.post("/sign-in")
async def send_sign_in(request: Request) -> Response:
    form = await read_form(request)
    name, after = form.get("name", "").strip(), safe_next(form.get("next"))
    cookies = Response()
    try:
        entered = await sign_in(services(request), request, cookies, name=name, password=form.get("password", ""))
    except Problem as problem:
        return again(request, "sign_in.html", problem, next=after, name=name)
    return await go_on(request, entered, cookies, after)


async def go_on(request: Request, entered: Entered | Ticket, cookies: Response, after: str) -> Response:
    """After the first half of signing in, however it was done: a session, or the page for a code."""
    if isinstance(entered, Entered):
        return with_cookies(redirect(after), cookies)
    if not entered.enrol:
        return page(request, "code.html", ticket=entered.text, next=after, **blank())
    made = await _enrolment(request, entered.text)
    return page(request, "enrol.html", **_enrol_values(made, entered.text, after), **blank())


async def _enrolment(request: Request, ticket: str) -> Enrolment:
    found = services(request)
    step = await step_of_ticket(found, ticket)
    async with found.database.engine() as connection, connection.transaction():
        return await begin_enrolment(found, connection, step.principal, own_address(request, found.settings))


def _enrol_values(made: Enrolment, ticket: str, after: str) -> dict[str, Any]:
    return {"made": made, "ticket": ticket, "next": after, "action": "/ui/sign-in/code", "must": True}


@router.post("/sign-in/code")
async def send_code(request: Request) -> Response:
    form = await read_form(request)
    ticket, after = form.get("ticket", ""), safe_next(form.get("next"))
    cookies = Response()
    found = services(request)
    try:
        entered = await sign_in_with_code(found, request, cookies, ticket=ticket, code=form.get("code", ""))
    except Problem as problem:
        if problem.slug == "sign-in-over":
            return again(request, "sign_in.html", problem, next=after, name="")
        if (await step_of_ticket(found, ticket)).enrol:
            made = await _enrolment(request, ticket)
            return again(request, "enrol.html", problem, **_enrol_values(made, ticket, after))
        return again(request, "code.html", problem, ticket=ticket, next=after)
    if entered.recovery_codes:
        shown = page(request, "recovery_codes.html", codes=entered.recovery_codes, next=after)
        return with_cookies(shown, cookies)
    return with_cookies(redirect(after), cookies)


@router.post("/sign-out")
async def leave(request: Request) -> Response:
    found, caller = await signed_in(request)
    through_provider = await began_at_provider(found, caller)
    await end_one(found, caller, caller.session_id)
    gone = redirect(SIGNED_OUT if through_provider else SIGN_IN)
    clear_session(gone, request, found.settings)
    return gone
