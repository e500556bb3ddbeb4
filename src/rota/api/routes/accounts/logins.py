"""`rota login` and `rota logout`, as a program speaks them. What people see of a login are pages (`rota.ui.logins`)."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from rota.api.answers import answer
from rota.api.audited import audit
from rota.api.described import described, read_query
from rota.api.requests import read_json
from rota.api.services import authorise, services
from rota.api.sign_in import logins
from rota.api.sign_in.cookies import own_address
from rota.api.sign_in.login_tokens import exchange
from rota.api.sign_in.secret_body import Secretive, read_secretly
from rota.model.accounts import logins as rules
from rota.model.answers.accounts import NewToken
from rota.model.answers.logins import DeviceLogin, LoginPages
from rota.model.errors import FaultList, conflict
from rota.store import tenants

BROWSER_PAGE = "/ui/login"
DEVICE_PAGE = "/ui/device"

router = APIRouter(prefix="/v1", tags=["accounts"])


class DeviceRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The token that a program would like: its name is `cli-MACHINE`, `lasts` is a duration, by default 30 days."""

    machine: str
    lasts: int | float | str | None = None
    tenant: str | None = None


class ExchangeRequest(Secretive, forbid_unknown_fields=True):
    """A `code` from a browser with its `code_verifier`, or a `device_code`."""

    code: str | None = None
    code_verifier: str | None = None
    device_code: str | None = None


@router.get("/login")
@described(LoginPages)
async def get_login(request: Request) -> Response:
    """The pages on which people allow a login, at the address that their browsers use."""
    read_query(request)
    own = own_address(request, services(request).settings)
    return answer(LoginPages(browser=own + BROWSER_PAGE, device=own + DEVICE_PAGE))


@router.post("/login/device", status_code=201)
@described(DeviceLogin, body=DeviceRequest)
async def start_device_login(request: Request) -> Response:
    """Begins a login that somebody allows on any machine, by typing a short code (RFC 8628)."""
    found = services(request)
    body = await read_json(request, DeviceRequest)
    faults = FaultList()
    asked = rules.asked(body.machine, body.lasts, body.tenant, faults)
    faults.check()
    started = await logins.start_device(found, asked)
    page = own_address(request, found.settings) + DEVICE_PAGE
    return answer(
        DeviceLogin(
            device_code=started.device_code,
            user_code=started.user_code,
            verification_uri=page,
            verification_uri_complete=f"{page}?code={started.user_code}",
            expires_in=int(rules.DEVICE_LASTS.total_seconds()),
            interval=rules.POLL_SECONDS,
        ),
        201,
    )


@router.post("/login/token", status_code=201)
@described(NewToken, body=ExchangeRequest)
async def take_login_token(request: Request) -> Response:
    """Exchanges the code of a login for the token, once.

    A program with a device code asks until it has an answer: 400 `authorization-pending` and `slow-down` ask for
    patience, `retry_after` says how much. A code that comes for a second time revokes the token that it gave.
    """
    body = await read_secretly(request, ExchangeRequest)
    faults = FaultList()
    if (body.code is None) == (body.device_code is None):
        faults.add("code", "missing-field", "give the code of a browser with its code_verifier, or a device_code")
    elif body.code is not None and not rules.is_verifier(body.code_verifier):
        faults.add("code_verifier", "invalid-verifier", "code_verifier is 43 to 128 letters, digits or - . _ ~")
    faults.check()
    if body.code is not None:
        made = await exchange(services(request), body.code, "browser", body.code_verifier)
    else:
        made = await exchange(services(request), body.device_code or "", "device")
    return answer(made, 201)


@router.post("/logout", status_code=204)
@described(None)
async def log_out(request: Request) -> Response:
    """Revokes the token that this request carries. A token needs no scope to end itself."""
    found, caller = await authorise(request)
    if not caller.token_id:
        raise conflict("no-token", f"{caller.credential} is not a token; a session ends with POST /v1/sign-out")
    async with found.database.engine() as connection, connection.transaction():
        await tenants.revoke_token(connection, caller.token_id)
        target = f"{caller.tenant}/{caller.user}/{caller.token_name or caller.token_id}"
        await audit(connection, caller, "token.revoke", target, reason="rota logout")
    found.authenticator.forget()
    return Response(status_code=204)
