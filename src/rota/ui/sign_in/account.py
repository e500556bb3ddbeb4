"""A user's own account: password, second factor and sessions; and the page that asks for the password once more."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from rota.api.requests import task_id
from rota.api.routes.sign_in import factors
from rota.api.routes.sign_in.sessions import end_one
from rota.api.services import Services
from rota.api.sign_in.cookies import with_cookies
from rota.api.sign_in.own_account import end_own_sessions, own_account
from rota.api.sign_in.own_password import change_password, prove
from rota.model.errors import Problem
from rota.model.sign_in.password_rules import LEAST_ALONE, LEAST_WITH_SECOND
from rota.model.tenant import Caller
from rota.ui.forms import again, blank, read_form
from rota.ui.pages import PageRoute, page, redirect, safe_next, signed_in
from rota.ui.sign_in.links import twice

ACCOUNT = "/ui/account"
# What the page says after a change. The address only chooses one of these, so a link can't put words into it.
_DONE = {
    "password": "The password is changed, and all other sessions are ended.",
    "factor": "The second factor is removed.",
    "session": "The session is ended.",
    "sessions": "All other sessions are ended.",
}

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)


@router.get("/account")
async def show_account(request: Request) -> Response:
    services, caller = await signed_in(request)
    said = _DONE.get(request.query_params.get("done", ""), "")
    return page(request, "account.html", **await _values(services, caller), said=said, **blank())


async def _values(services: Services, caller: Caller) -> dict[str, Any]:
    account = await own_account(services, caller)
    second = account.second_factor or account.needs_second
    return {"caller": caller, "account": account, "least": LEAST_WITH_SECOND if second else LEAST_ALONE}


@router.post("/account/password")
async def change_own_password(request: Request) -> Response:
    services, caller = await signed_in(request)
    form = await read_form(request)
    cookies = Response()
    try:
        new = twice(form, "new")
        await change_password(services, request, cookies, caller, old=form.get("old", ""), new=new)
    except Problem as problem:
        return again(request, "account.html", problem, **await _values(services, caller), said="")
    return with_cookies(redirect(f"{ACCOUNT}?done=password"), cookies)


@router.get("/account/second-factor")
async def show_enrolment(request: Request) -> Response:
    services, caller = await signed_in(request)
    return page(request, "enrol.html", **await _enrolment(request, services, caller), **blank())


async def _enrolment(request: Request, services: Services, caller: Caller) -> dict[str, Any]:
    return {
        "made": await factors.begin(services, request, caller),
        "ticket": "",
        "next": ACCOUNT,
        "action": f"{ACCOUNT}/second-factor",
        "must": False,
    }


@router.post("/account/second-factor")
async def confirm_enrolment(request: Request) -> Response:
    services, caller = await signed_in(request)
    form = await read_form(request)
    try:
        codes = await factors.confirm(services, caller, form.get("code", ""))
    except Problem as problem:
        if problem.slug != "wrong-code":
            raise
        return again(request, "enrol.html", problem, **await _enrolment(request, services, caller))
    return page(request, "recovery_codes.html", codes=codes, next=ACCOUNT)


@router.post("/account/second-factor/remove")
async def remove_own_factor(request: Request) -> Response:
    services, caller = await signed_in(request)
    await factors.remove(services, caller)
    return redirect(f"{ACCOUNT}?done=factor")


@router.post("/account/recovery-codes")
async def renew_own_codes(request: Request) -> Response:
    services, caller = await signed_in(request)
    return page(request, "recovery_codes.html", codes=await factors.renew(services, caller), next=ACCOUNT)


@router.post("/account/sessions/end")
async def end_own_session(request: Request) -> Response:
    services, caller = await signed_in(request)
    await end_one(services, caller, task_id((await read_form(request)).get("session", ""), "session"))
    return redirect(f"{ACCOUNT}?done=session")


@router.post("/account/sessions/end-others")
async def end_all_other_sessions(request: Request) -> Response:
    services, caller = await signed_in(request)
    await end_own_sessions(services, caller)
    return redirect(f"{ACCOUNT}?done=sessions")


@router.get("/prove")
async def show_prove(request: Request) -> Response:
    services, caller = await signed_in(request)
    after = safe_next(request.query_params.get("next"))
    return page(request, "prove.html", next=after, account=await own_account(services, caller), **blank())


@router.post("/prove")
async def prove_again(request: Request) -> Response:
    services, caller = await signed_in(request)
    form = await read_form(request)
    after = safe_next(form.get("next"))
    try:
        await prove(services, request, caller, form.get("password", ""))
    except Problem as problem:
        return again(request, "prove.html", problem, next=after, account=await own_account(services, caller))
    return redirect(after)
