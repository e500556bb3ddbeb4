"""Signing in and out, for programs that are a page in a browser. Other programs send a token."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rota.api.answers import answer
from rota.api.audited import audit
from rota.api.described import described, read_query
from rota.api.services import authorise, services
from rota.api.sign_in.cookies import check_own_site, clear_session, own_address, with_cookies
from rota.api.sign_in.second_factors import begin_enrolment
from rota.api.sign_in.secret_body import Secretive, read_secretly
from rota.api.sign_in.signing_in import Entered, Ticket, sign_in_with_code, step_of_ticket
from rota.api.sign_in.signing_in import sign_in as enter
from rota.model.answers.sign_in import EnrolmentDocument, SignedIn, SignInNext
from rota.model.errors import conflict
from rota.store.sessions import end_sessions

router = APIRouter(prefix="/v1", tags=["sign-in"])


class SignInRequest(Secretive):
    """`name`: the user's name or mail address."""

    name: str
    password: str


class TicketRequest(Secretive):
    """The ticket that the answer to the right password has."""

    ticket: str


class CodeRequest(Secretive):
    """A code of the app, or a recovery code."""

    ticket: str
    code: str


@router.post("/sign-in")
@described(SignedIn, also={202: (SignInNext, "A second factor is needed.")}, body=SignInRequest)
async def sign_in(request: Request) -> Response:
    """Begins a session, whose secret is in a cookie. The request must come from a page of this server."""
    found = services(request)
    check_own_site(request, found.settings)
    asked = await read_secretly(request, SignInRequest)
    cookies = Response()
    entered = await enter(found, request, cookies, name=asked.name, password=asked.password)
    if isinstance(entered, Ticket):
        return answer(SignInNext(ticket=entered.text, next="enrol" if entered.enrol else "code"), 202)
    return _signed_in(entered, cookies)


@router.post("/sign-in/enrol")
@described(EnrolmentDocument, body=TicketRequest)
async def begin_enrolment_with_ticket(request: Request) -> Response:
    """For whoever must have a second factor and has none: what to put into the app. Then send a code of it."""
    found = services(request)
    check_own_site(request, found.settings)
    ticket = (await read_secretly(request, TicketRequest)).ticket
    step = await step_of_ticket(found, ticket)
    if not step.enrol:
        raise conflict("second-factor-exists", "there is a second factor already; send a code of it")
    async with found.database.engine() as connection, connection.transaction():
        made = await begin_enrolment(found, connection, step.principal, own_address(request, found.settings))
    return answer(EnrolmentDocument(secret=made.secret, address=made.address))


@router.post("/sign-in/code")
@described(SignedIn, body=CodeRequest)
async def confirm_sign_in(request: Request) -> Response:
    """The second half of signing in. Answers with recovery codes if the second factor was just set up."""
    found = services(request)
    check_own_site(request, found.settings)
    asked = await read_secretly(request, CodeRequest)
    cookies = Response()
    return _signed_in(await sign_in_with_code(found, request, cookies, ticket=asked.ticket, code=asked.code), cookies)


@router.post("/sign-out", status_code=204)
@described(None)
async def sign_out(request: Request) -> Response:
    """Ends the session of the request."""
    found, caller = await authorise(request)
    read_query(request)
    assert caller.principal_id is not None, "a session is a user's"
    async with found.database.engine() as connection, connection.transaction():
        await end_sessions(connection, caller.principal_id, number=caller.session_id)
        await audit(connection, caller, "session.end", caller.session_id)
    found.authenticator.forget()
    gone = Response(status_code=204)
    clear_session(gone, request, found.settings)
    return gone


def _signed_in(entered: Entered, cookies: Response) -> Response:
    return with_cookies(answer(SignedIn(session=entered.session, recovery_codes=list(entered.recovery_codes))), cookies)
