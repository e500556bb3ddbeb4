"""What both ways of a login show to the user who decides: who asks, for which rights, and for how long.

Names and addresses come from whoever asks: a page shows them as text, and its rules have bounded them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import Request, Response

from rota.api.routes.accounts.managing import check_proved
from rota.api.services import Services
from rota.api.sign_in import logins
from rota.api.sign_in.cookies import session_secret
from rota.model.accounts.logins import Asked
from rota.model.accounts.permissions import MEANING, Scope
from rota.model.errors import Problem
from rota.model.tenant import Caller
from rota.model.units import duration_text
from rota.ui.pages import page, signed_in

ALLOW, REFUSE = "allow", "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a login came here: which form carries the decision, and what is known of the program."""

    action: str
    hidden: dict[str, str]
    origin: str  # where the program runs, as people read it
    agent: str = ""
    user_code: str = ""
    form_targets: tuple[str, ...] = ()


async def approver(request: Request, tenant: str | None = None) -> tuple[Services, Caller]:
    """The signed-in user, at the tenant that the token is for. They proved who they are a short time ago."""
    services, caller = await signed_in(request)
    if tenant is not None and tenant != caller.tenant:
        secret = session_secret(request, services.settings) or ""
        caller = await services.authenticator.session(secret, tenant=tenant)
    check_proved(caller)
    return services, caller


async def approval(request: Request, services: Services, caller: Caller, asked: Asked, way: Way) -> Response:
    given = logins.scopes_given(caller)
    return page(
        request,
        "login_approval.html",
        form_targets=way.form_targets,
        caller=caller,
        asked=asked,
        way=way,
        lasts=duration_text(int(asked.lasts.total_seconds() * 1000)),
        until=(datetime.now(UTC) + asked.lasts).strftime("%Y-%m-%d %H:%M UTC"),
        rights=[MEANING[scope] for scope in Scope if scope.value in given],
        may_all="admin" in given,
        is_replacing=await logins.is_replacing(services, caller, asked),
    )


def decision_of(form: dict[str, str]) -> bool:
    """Whether it is allowed."""
    decision = form.get("decision", "")
    if decision not in (ALLOW, REFUSE):
        raise Problem(
            "out-of-range",
            status=422,
            title="The request is not valid",
            detail=f"decision is {ALLOW} or {REFUSE}, not {decision[:40]!r}",
        )
    return decision == ALLOW
