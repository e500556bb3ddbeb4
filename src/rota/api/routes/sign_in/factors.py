"""A user's own password and second factor; only with a session in which the user proved who they are."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rota.api.answers import answer
from rota.api.audited import audit
from rota.api.described import described, read_query
from rota.api.requests import existing
from rota.api.routes.accounts import managing
from rota.api.services import Services, authorise
from rota.api.sign_in import second_factors
from rota.api.sign_in.cookies import own_address, with_cookies
from rota.api.sign_in.own_password import change_password
from rota.api.sign_in.secret_body import Secretive, read_secretly
from rota.model.answers.sign_in import (
    EnrolmentDocument,
    RecoveryCodes,
    SecondFactorDocument,
    SessionsEnded,
)
from rota.model.errors import Fault, Problem, conflict
from rota.model.tenant import Caller
from rota.store import second_factors as rows
from rota.store.sign_in import find_factors

router = APIRouter(prefix="/v1", tags=["sign-in"])


class PasswordChange(Secretive):
    """The password of now, and the new one."""

    old: str
    new: str


class Code(Secretive):
    """A code of the app."""

    code: str


@router.put("/password")
@described(SessionsEnded, body=PasswordChange)
async def set_password(request: Request) -> Response:
    """Changes the user's own password. All other sessions of the user end, and this one gets a new secret."""
    services, caller = await authorise(request)
    asked = await read_secretly(request, PasswordChange)
    cookies = Response()
    ended = await change_password(services, request, cookies, caller, old=asked.old, new=asked.new)
    return with_cookies(answer(SessionsEnded(ended=ended)), cookies)


@router.get("/second-factor")
@described(SecondFactorDocument)
async def get_second_factor(request: Request) -> Response:
    """Whether the user has a second factor, and whether a role asks for one."""
    services, caller = await authorise(request)
    read_query(request)
    return answer(await state_of(services, caller))


async def state_of(services: Services, caller: Caller) -> SecondFactorDocument:
    principal = principal_of(caller)
    async with services.database.engine() as connection:
        factors = await find_factors(connection, principal)
        left = await rows.count_recovery_codes(connection, principal)
    return SecondFactorDocument(enabled=factors.second_factor, required=factors.needs_second, recovery_codes_left=left)


@router.post("/second-factor", status_code=201)
@described(EnrolmentDocument)
async def begin_second_factor(request: Request) -> Response:
    """What to put into an app. It counts as soon as a code of the app was sent to `/v1/second-factor/confirm`."""
    services, caller = await authorise(request)
    read_query(request)
    made = await begin(services, request, caller)
    return answer(EnrolmentDocument(secret=made.secret, address=made.address), 201)


async def begin(services: Services, request: Request, caller: Caller) -> second_factors.Enrolment:
    managing.check_proved(caller)
    place = own_address(request, services.settings)
    async with services.database.engine() as connection, connection.transaction():
        return await second_factors.begin_enrolment(services, connection, principal_of(caller), place)


@router.post("/second-factor/confirm")
@described(RecoveryCodes, body=Code)
async def confirm_second_factor(request: Request) -> Response:
    """From now on signing in asks for a code. The recovery codes are in this answer only."""
    services, caller = await authorise(request)
    asked = await read_secretly(request, Code)
    return answer(RecoveryCodes(recovery_codes=list(await confirm(services, caller, asked.code))))


async def confirm(services: Services, caller: Caller, code: str) -> tuple[str, ...]:
    managing.check_proved(caller)
    principal = principal_of(caller)
    async with services.database.engine() as connection, connection.transaction():
        codes = await second_factors.confirm_first_code(services, connection, principal, code)
        if codes is None:
            detail = "this code is not right; is the clock of the phone right? Then enter the next code"
            faults = (Fault("/code", "wrong-code", detail),)
            raise Problem("wrong-code", status=422, title="The code is not right", detail=detail, faults=faults)
        await audit(connection, caller, "second-factor.add", caller.user)
    return codes


@router.delete("/second-factor", status_code=204)
@described(None)
async def remove_second_factor(request: Request) -> Response:
    """Signing in asks for the password alone. Refused while a role of the user asks for a second factor."""
    services, caller = await authorise(request)
    read_query(request)
    await remove(services, caller)
    return Response(status_code=204)


async def remove(services: Services, caller: Caller) -> None:
    managing.check_proved(caller)
    principal = principal_of(caller)
    async with services.database.engine() as connection, connection.transaction():
        if (await find_factors(connection, principal)).needs_second:
            raise conflict("second-factor-required", "a role of yours asks for a second factor, so it stays")
        existing(await rows.remove_second_factor(connection, principal) or None, "second factor")
        await audit(connection, caller, "second-factor.remove", caller.user)


@router.post("/second-factor/recovery-codes")
@described(RecoveryCodes)
async def renew_recovery_codes(request: Request) -> Response:
    """Ten new recovery codes; those before are good no more."""
    services, caller = await authorise(request)
    read_query(request)
    return answer(RecoveryCodes(recovery_codes=list(await renew(services, caller))))


async def renew(services: Services, caller: Caller) -> tuple[str, ...]:
    managing.check_proved(caller)
    principal = principal_of(caller)
    async with services.database.engine() as connection, connection.transaction():
        existing((await find_factors(connection, principal)).second_factor or None, "second factor")
        codes = await second_factors.renew_recovery_codes(connection, principal)
        await audit(connection, caller, "second-factor.renew-recovery-codes", caller.user)
    return codes


def principal_of(caller: Caller) -> int:
    assert caller.principal_id is not None, "a session is a user's"
    return caller.principal_id
