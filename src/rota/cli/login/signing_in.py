"""The whole of a login, from the first question to the server to the token.

It shows its user where to go, waits for a browser on this machine, for a code that is typed elsewhere, or for both, and
exchanges what has come. Nothing is saved here.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from rota.cli.login.listener import Answer, Listener
from rota.cli.shell.connection import connect_as
from rota.client.calls import login_calls
from rota.client.errors import ConfigurationError, NotFound, Refused, RotaError, Unreachable, WaitTimeout
from rota.client.transport.profile import Profile
from rota.model.accounts.logins import LONGEST_POLL_SECONDS, SLOWER_SECONDS, challenge_of
from rota.model.answers.accounts import NewToken
from rota.model.answers.logins import DeviceLogin, LoginPages

if TYPE_CHECKING:
    from rota.client._sync.transport import Transport

WAIT_SECONDS = 600.0
EXCHANGE_SECONDS = 20.0  # a server may restart meanwhile

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line asks for."""

    machine: str
    lasts: str | None
    tenant: str | None
    device: bool  # with a code only
    browser: bool  # may be opened here


def sign_in(profile: Profile, wanted: Wanted, say: Say) -> NewToken:
    """The token. Raises a `RotaError` that says why there is none. `profile`: without a token, so none is sent."""
    with closing(connect_as(profile)) as transport, ExitStack() as stack:
        pages = _pages(transport)
        listener = None if wanted.device else stack.enter_context(Listener())
        verifier = secrets.token_urlsafe(48)
        is_open = False
        if listener is not None:
            address = _address(pages.browser, wanted, listener, verifier)
            is_open = wanted.browser and _open(address)
            say(f"{'your browser opens' if is_open else 'open in a browser on this machine'}: {address}")
        device = None
        if not is_open:
            device = transport.perform(
                login_calls.start_device(wanted.machine, lasts=wanted.lasts, tenant=wanted.tenant)
            )
            beginning = "or open in any browser" if listener is not None else "open in any browser"
            say(f"{beginning}: {device.verification_uri}  and type the code {device.user_code}")
        say("waiting until you allow it there (Ctrl-C ends this)")
        code = _wait(transport, listener, device, say)
        if isinstance(code, NewToken):
            return code
    with closing(connect_as(profile, EXCHANGE_SECONDS)) as transport:
        return transport.perform(login_calls.token_for_code(code, verifier))


def _pages(transport: Transport) -> LoginPages:
    try:
        pages = transport.perform(login_calls.pages())
    except NotFound:
        raise ConfigurationError("this server is older than `rota login`; use a token (rota token add)") from None
    for address in (pages.browser, pages.device):
        if urlsplit(address).scheme not in ("http", "https") or not address.isprintable():
            raise ConfigurationError("the server names pages that are no addresses of the web")
    return pages


def _address(page: str, wanted: Wanted, listener: Listener, verifier: str) -> str:
    query = {
        "machine": wanted.machine,
        "lasts": wanted.lasts,
        "tenant": wanted.tenant,
        "redirect_uri": listener.address,
        "state": listener.state,
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
    }
    return f"{page}?{urlencode({name: value for name, value in query.items() if value is not None})}"


# ---- the browser ----------------------------------------------------------------------------------------------------


def has_browser(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Whether a window can open here, that the user sees. A browser of text would take over the terminal."""
    if environment.get("BROWSER"):
        return True
    if any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")):
        return True
    return platform in ("darwin", "win32") and not environment.get("SSH_CONNECTION")


def _open(address: str) -> bool:
    try:
        return has_browser() and webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return False


# ---- waiting --------------------------------------------------------------------------------------------------------


def _wait(
    transport: Transport,
    listener: Listener | None,
    device: DeviceLogin | None,
    say: Say,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> str | NewToken:
    """The code that the browser brought, or the token for the typed one."""
    until = clock() + (WAIT_SECONDS if device is None else min(WAIT_SECONDS, device.expires_in))
    pause = WAIT_SECONDS if device is None else float(device.interval)
    is_away = False
    while (left := until - clock()) > 0:
        came = _came(listener, min(pause, left))
        if came is not None and came.code is None:
            raise Refused("the login was refused in the browser", status=403, slug="access-denied")
        if came is not None and came.code is not None:
            return came.code
        if device is None:
            continue
        try:
            return transport.perform(login_calls.token_for_device(device.device_code))
        except Unreachable as error:
            if not is_away:
                say(f"{error}; this login goes on when it is back")
            is_away, pause = True, min(2 * pause, LONGEST_POLL_SECONDS)
        except Refused as refusal:
            if refusal.slug == "expired-token":
                break
            if refusal.slug not in ("authorization-pending", "slow-down"):
                raise
            longer = SLOWER_SECONDS if refusal.slug == "slow-down" else 0
            is_away, pause = False, min(pause + longer, LONGEST_POLL_SECONDS)
    raise WaitTimeout("nobody allowed this login in time; begin again with `rota login`", task_ids=())


def _came(listener: Listener | None, seconds: float) -> Answer | None:
    if listener is not None:
        return listener.wait(seconds)
    time.sleep(seconds)
    return None


def end_token(profile: Profile) -> str | None:
    """Revokes the token of a profile at its server. Returns why it may still be good; None: it is not."""
    if profile.token is None:
        return None
    try:
        with closing(connect_as(profile)) as transport:
            transport.perform(login_calls.log_out())
    except Refused as refusal:
        return None if refusal.status == 401 else str(refusal)
    except RotaError as error:
        return str(error)
    return None
