"""The cookie of a browser that a user signed in from before: it keeps strangers' failures from locking the user out.

It proves nothing else. It is signed, says which user it is of, and no session can be made of it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from fastapi import Request, Response

from rota.api.services import Services
from rota.api.sign_in.cookies import is_secure

KEPT_SECONDS = 180 * 86_400

_FORM = re.compile(r"^(\d{1,10})\.([A-Za-z0-9_-]{16})\.([0-9a-f]{64})\Z", re.ASCII)


def known_device(services: Services, request: Request, principal: int | None) -> str | None:
    """The name of the browser, if its cookie is of this user."""
    device = signed_device(services, request)
    return device[1] if device is not None and device[0] == principal else None


def signed_device(services: Services, request: Request) -> tuple[int, str] | None:
    """The user whose cookie the browser has, whoever it may be, and the browser's name."""
    match = _FORM.match(request.cookies.get(_name(services, request), ""))
    if match is None or not hmac.compare_digest(match[3], _signature(services, match[1], match[2])):
        return None
    return int(match[1]), match[2]


def remember_device(services: Services, request: Request, response: Response, principal: int) -> None:
    device = known_device(services, request, principal) or secrets.token_urlsafe(12)
    response.set_cookie(
        _name(services, request),
        f"{principal}.{device}.{_signature(services, str(principal), device)}",
        max_age=KEPT_SECONDS,
        secure=is_secure(request, services.settings),
        httponly=True,
        samesite="strict",
        path="/",
    )


def _name(services: Services, request: Request) -> str:
    return "__Host-rota-device" if is_secure(request, services.settings) else "rota-device"


def _signature(services: Services, principal: str, device: str) -> str:
    key = hashlib.sha256(f"device:{services.cluster.secret}".encode()).digest()
    return hmac.new(key, f"{principal}.{device}".encode(), hashlib.sha256).hexdigest()
