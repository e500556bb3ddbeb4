"""What administrators do about signing in: invitations, lost second factors, and the rules of the cluster."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from rota.api.answers import answer
from rota.api.audited import audit
from rota.api.described import described, read_query
from rota.api.requests import existing, read_json
from rota.api.routes.accounts import managing
from rota.api.services import authorise
from rota.api.sign_in.links import invite
from rota.api.sign_in.second_factors import keyring_of
from rota.model.answers.sign_in import InvitationDocument, SignInRules
from rota.model.errors import FaultList
from rota.store.second_factors import remove_second_factor
from rota.store.sessions import end_sessions
from rota.store.sign_in import end_sessions_without_second, read_rules, save_rules

router = APIRouter(prefix="/v1", tags=["sign-in"])


class RulesRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The roles whose holders need a second factor; empty: nobody needs one."""

    second_factor_roles: list[str]


@router.post("/users/{name}/invitation", status_code=201)
@described(InvitationDocument)
async def invite_user(request: Request, name: str) -> Response:
    """A link with which the user sets a password, once, within three days. It ends the link before it."""
    services, caller = await authorise(request)
    read_query(request)
    managing.check_proved(caller)
    async with managing.changing(services) as connection:
        user = await managing.found_user(connection, caller, name)
        managing.check_acts_for(caller, user)
        made = await invite(services, request, connection, caller, user)
    return answer(InvitationDocument(user=user.name, link=made.address, ends_at=made.ends_at), 201)


@router.delete("/users/{name}/second-factor", status_code=204)
@described(None)
async def reset_second_factor(request: Request, name: str) -> Response:
    """For a user who lost the app and the recovery codes. The user's sessions end."""
    services, caller = await authorise(request)
    read_query(request)
    managing.check_proved(caller)
    async with managing.changing(services) as connection:
        user = await managing.found_user(connection, caller, name)
        managing.check_acts_for(caller, user)
        existing(await remove_second_factor(connection, user.id) or None, "second factor")
        await end_sessions(connection, user.id, but=caller.session_id or None)
        await audit(connection, caller, "second-factor.reset", user.name)
    return Response(status_code=204)


@router.get("/sign-in/rules")
@described(SignInRules)
async def get_sign_in_rules(request: Request) -> Response:
    """Which roles ask for a second factor."""
    services, _ = await authorise(request)
    read_query(request)
    async with services.database.engine() as connection:
        return answer(SignInRules(second_factor_roles=await read_rules(connection)))


@router.put("/sign-in/rules")
@described(SignInRules, body=RulesRequest)
async def set_sign_in_rules(request: Request) -> Response:
    """Sets which roles ask for a second factor. Sessions of users who need one and have none end."""
    services, caller = await authorise(request)
    managing.check_proved(caller)
    asked = await read_json(request, RulesRequest)
    faults = FaultList()
    for role in asked.second_factor_roles:
        if role not in managing.ROLES:
            there = ", ".join(managing.ROLES)
            faults.add("second_factor_roles", "out-of-range", f"{role[:40]!r} is not a role; there are {there}")
    faults.check(1)
    wanted = [role.value for role in managing.ROLES if role in asked.second_factor_roles]
    if wanted:
        keyring_of(services)  # without a master key nobody with these roles could sign in any more
    async with managing.changing(services) as connection:
        before = await read_rules(connection)
        await save_rules(connection, wanted)
        ended = await end_sessions_without_second(connection)
        await audit(
            connection,
            caller,
            "sign-in-rules.set",
            "second-factor",
            before={"second_factor_roles": before},
            after={"second_factor_roles": wanted},
            count=ended,
        )
    return answer(SignInRules(second_factor_roles=wanted))
