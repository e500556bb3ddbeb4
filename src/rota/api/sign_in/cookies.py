"""The cookie of a session, and which requests with one are refused because another site may have sent them.

A browser sends the cookie with whatever request any page makes to us. So a request that changes something must come
from our own pages (`Sec-Fetch-Site`, or `Origin` of browsers that do not send it). Requests with a token need no cookie
and are not checked.
"""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from fastapi import Request, Response

from rota.model.errors import Problem
from rota.settings import Settings

SESSION_LASTS = timedelta(days=7)

_SECURE = "__Host-rota"  # browsers take it over TLS only, for this host only
_PLAIN = "rota"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def is_secure(request: Request, settings: Settings) -> bool:
    """Whether browsers reach this server over TLS, by itself or through a proxy."""
    return request.url.scheme == "https" or settings.public_url.startswith("https://")


def own_address(request: Request, settings: Settings) -> str:
    """The address at which browsers reach this server, as in links: `https://rota.example.org`."""
    return settings.public_url or f"{request.url.scheme}://{request.headers.get('host', request.url.netloc)}"


def session_secret(request: Request, settings: Settings) -> str | None:
    """What the cookie says; None without one."""
    return request.cookies.get(_SECURE if is_secure(request, settings) else _PLAIN) or None


def set_session(response: Response, request: Request, settings: Settings, secret: str) -> None:
    secure = is_secure(request, settings)
    response.set_cookie(
        _SECURE if secure else _PLAIN,
        secret,
        max_age=int(SESSION_LASTS.total_seconds()),
        secure=secure,
        httponly=True,
        samesite="lax",
        path="/",
    )


def clear_session(response: Response, request: Request, settings: Settings) -> None:
    secure = is_secure(request, settings)
    response.delete_cookie(_SECURE if secure else _PLAIN, secure=secure, httponly=True, samesite="lax", path="/")


def with_cookies(response: Response, cookies: Response) -> Response:
    """The response, which also sets the cookies of the other one."""
    response.raw_headers.extend(pair for pair in cookies.raw_headers if pair[0] == b"set-cookie")
    return response


def check_own_site(request: Request, settings: Settings) -> None:
    """Refuses a change that a page of another site may have sent."""
    if request.method in _SAFE_METHODS:
        return
    site = request.headers.get("sec-fetch-site")
    if site is None and _is_own(request.headers.get("origin"), own_address(request, settings)):
        return
    if site != "same-origin":
        raise Problem(
            "cross-site",
            status=403,
            title="Forbidden",
            detail="a change with a session's cookie must come from a page of this server; programs send a token",
        )


def _is_own(origin: str | None, own: str) -> bool:
    if not origin:
        return False
    given, wanted = urlsplit(origin), urlsplit(own)
    return (given.scheme, given.netloc) == (wanted.scheme, wanted.netloc)
