"""Sign-in through the provider: the browser is sent there, and comes back to `/ui/oidc/callback`.

What it brings back counts once, within ten minutes, and only in the browser that began: an address that somebody stole,
or lays under somebody else's sign-in, leads nowhere. Every refusal is a page that says what to do, and is audited.
"""

from __future__ import annotations

import contextlib
import secrets

from fastapi import APIRouter, Request, Response
from starlette.datastructures import QueryParams

from rota.admit.authenticate import hash_secret
from rota.admit.oidc.provider import Provider
from rota.admit.oidc.trouble import ProviderTrouble, SignInRefused
from rota.api.services import Services, services
from rota.api.sign_in.cookies import is_secure, own_address
from rota.model.errors import not_found
from rota.model.tenant import Caller
from rota.store.oidc import SIGN_IN_LASTS, SignInRow, begin_sign_in, session_via
from rota.ui.pages import PageRoute, page, redirect, safe_next
from rota.ui.sign_in.oidc_callback import BROWSER, audit_refusal, come_back, cookie_name

router = APIRouter(prefix="/ui/oidc", route_class=PageRoute, include_in_schema=False)

CALLBACK = "/ui/oidc/callback"
SIGNED_OUT = "/ui/oidc/signed-out"


def provider_of(request: Request) -> tuple[Services, Provider]:
    found = services(request)
    if found.oidc is None:
        raise not_found("single sign-on: this server has no table [oidc] in rota.toml")
    return found, found.oidc


@router.get("/start")
async def start_oidc(request: Request) -> Response:
    """Sends the browser to the provider. `again`: it asks who it is, even if it remembers."""
    found, provider = provider_of(request)
    following = safe_next(request.query_params.get("next"))
    state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
    browser = _browser(request, found)
    redirect_uri = own_address(request, found.settings) + CALLBACK
    try:
        address = await provider.authorization_address(
            redirect_uri=redirect_uri,
            state=state,
            nonce=nonce,
            verifier=verifier,
            again="again" in request.query_params,
        )
    except SignInRefused as refusal:
        return await _refused(request, found, provider, refusal, following)
    async with found.database.engine() as connection:
        await begin_sign_in(
            connection,
            SignInRow(nonce, verifier, redirect_uri, following),
            state_hash=hash_secret(state),
            browser_hash=hash_secret(browser),
        )
    answer = redirect(address)
    secure = is_secure(request, found.settings)
    answer.set_cookie(
        cookie_name(secure),
        browser,
        max_age=int(SIGN_IN_LASTS.total_seconds()),
        secure=secure,
        httponly=True,
        samesite="lax",  # it has to come along when the provider sends the browser back
        path="/",
    )
    return answer


@router.get("/callback")
async def finish_oidc(request: Request) -> Response:
    """Where the provider sends the browser back to, with a code or an error."""
    found, provider = provider_of(request)
    try:
        return await come_back(found, provider, request)
    except SignInRefused as refusal:
        return await _refused(request, found, provider, refusal)


@router.get("/signed-out")
async def show_signed_out(request: Request) -> Response:
    """After signing out here: also out of the provider, if it has an address for that. A page leads there, since the
    answer to a form may not go to another site."""
    found, provider = provider_of(request)
    address = None
    if provider.settings.logout:
        with contextlib.suppress(ProviderTrouble):  # signed out here is what counts
            address = await provider.logout_address(own_address(request, found.settings) + "/ui/sign-in")
    return page(request, "oidc_signed_out.html", address=address, provider=provider.settings.name)


async def began_at_provider(found: Services, caller: Caller) -> bool:
    """Whether the session of the caller began there, so that it may have to end there too."""
    if found.oidc is None or not found.oidc.settings.logout:
        return False
    async with found.database.engine() as connection:
        return await session_via(connection, caller.session_id) == "oidc"


def _browser(request: Request, found: Services) -> str:
    """The cookie of this browser, so that sign-ins in two of its tabs both work; else a new one."""
    given = request.cookies.get(cookie_name(is_secure(request, found.settings)), "")
    return given if BROWSER.match(given) else secrets.token_urlsafe(32)


async def _refused(
    request: Request, found: Services, provider: Provider, refusal: SignInRefused, following: str | None = None
) -> Response:
    await audit_refusal(found, refusal)
    query = QueryParams({"next": following} if following else {})
    return page(
        request,
        "oidc_refused.html",
        status=503 if isinstance(refusal, ProviderTrouble) else 403,
        text=refusal.text,
        advice=refusal.advice,
        code=refusal.code,
        again=f"/ui/oidc/start?{query}",
        provider=provider.settings.name,
        password=not provider.settings.only,
    )
