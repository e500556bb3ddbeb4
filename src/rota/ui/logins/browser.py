"""A login in the browser of the program's own machine: the code goes back by a redirect to the program's port.

Every request carries all that it is about, and is judged anew: nothing is stored before the user allows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from rota.api.routes.accounts.logins import BROWSER_PAGE
from rota.api.sign_in import logins
from rota.model.accounts import logins as rules
from rota.model.accounts.logins import Asked, Return
from rota.model.errors import FaultList
from rota.ui.forms import read_form
from rota.ui.logins.approval import Way, approval, approver, decision_of
from rota.ui.pages import PageRoute, redirect

router = APIRouter(prefix=BROWSER_PAGE, route_class=PageRoute, include_in_schema=False)

_FIELDS = ("machine", "lasts", "tenant", "redirect_uri", "state", "code_challenge", "code_challenge_method")


@router.get("")
async def show_login(request: Request) -> Response:
    given = dict(request.query_params)
    asked, to = _judged(given)
    services, caller = await approver(request, asked.tenant)
    way = Way(
        action=BROWSER_PAGE,
        hidden={name: given[name] for name in _FIELDS if given.get(name)},
        origin=f"the machine of this browser ({to.origin.removeprefix('http://')})",
        form_targets=(to.origin,),
    )
    return await approval(request, services, caller, asked, way)


@router.post("")
async def decide_login(request: Request) -> Response:
    """Leads the browser to the program, with the code or with the refusal."""
    form = await read_form(request)
    asked, to = _judged(form)
    is_allowed = decision_of(form)
    services, caller = await approver(request, asked.tenant)
    if is_allowed:
        answer = {"code": await logins.allow_browser(services, caller, asked, to.challenge)}
    else:
        await logins.deny_browser(services, caller, asked)
        answer = {"error": "access_denied"}
    return redirect(f"{to.origin}/?{urlencode({**answer, 'state': to.state})}")


def _judged(given: Mapping[str, str]) -> tuple[Asked, Return]:
    faults = FaultList()
    to = rules.returned(
        given.get("redirect_uri"),
        given.get("state"),
        given.get("code_challenge"),
        given.get("code_challenge_method"),
        faults,
    )
    asked = rules.asked(given.get("machine"), given.get("lasts") or None, given.get("tenant") or None, faults)
    faults.check()
    return asked, to
