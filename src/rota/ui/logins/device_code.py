"""A login with a code: its user types it here, on any machine, and decides.

Whoever sends somebody else such a code would be let in as that person; so the page asks whether they began it.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rota.api.routes.accounts.logins import DEVICE_PAGE
from rota.api.sign_in import logins
from rota.model.accounts.logins import user_code_of
from rota.store.logins import LoginRow
from rota.ui.forms import read_form
from rota.ui.logins.approval import Way, approval, approver, decision_of
from rota.ui.pages import PageRoute, page

router = APIRouter(prefix=DEVICE_PAGE, route_class=PageRoute, include_in_schema=False)


@router.get("")
async def show_code_entry(request: Request) -> Response:
    """A code in the address is only filled in: the user sends it."""
    await approver(request)
    return _entry(request, user_code_of(request.query_params.get("code", "")) or "")


@router.post("")
async def decide_code(request: Request) -> Response:
    """Without a decision it shows who asks."""
    form = await read_form(request)
    typed = form.get("code", "")
    services, caller = await approver(request)
    found = await logins.find_device(services, caller, typed)
    if found is None:
        return _unknown(request, typed)
    services, caller = await approver(request, found.asked.tenant)
    if "decision" not in form:
        return await approval(request, services, caller, found.asked, _way(found, typed))
    is_allowed = decision_of(form)
    decided = await logins.decide_device(services, caller, typed, allowed=is_allowed)
    if decided is None:
        return _unknown(request, typed)
    return page(request, "login_decided.html", caller=caller, asked=decided.asked, is_allowed=is_allowed)


def _way(found: LoginRow, typed: str) -> Way:
    code = user_code_of(typed) or ""
    return Way(
        action=DEVICE_PAGE,
        hidden={"code": code},
        origin=found.address or "the server's own machine",
        agent=found.agent,
        user_code=code,
    )


def _entry(request: Request, code: str, *, error: str = "", status: int = 200) -> Response:
    return page(request, "login_code.html", status=status, code=code, error=error)


def _unknown(request: Request, typed: str) -> Response:
    error = "No login waits under this code: it is mistyped, was decided before, or is older than ten minutes."
    return _entry(request, user_code_of(typed) or "", error=error, status=422)
