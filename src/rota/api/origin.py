"""Where a request comes from: its address, program and id, for the audit log, wherever it is written.

A context variable holds what the application received; nothing is read of it until an entry is written.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import ip_address
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.model.audit import Via

LONGEST_AGENT = 200
LONGEST_ID = 100

# What the user agents of our own programs begin with.
_PROGRAMS: dict[str, Via] = {"rota-cli": "cli", "rota-python": "sdk"}

_received: ContextVar[Scope | None] = ContextVar("received", default=None)


@dataclass(frozen=True, slots=True)
class Origin:
    address: str | None = None
    agent: str = ""
    via: Via = ""
    request_id: str = ""
    server: str = ""


class Received:
    """Remembers each request for as long as it is worked on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _received.set(scope)
        await self._app(scope, receive, send)


def origin() -> Origin:
    """Of the request that is worked on. Outside of requests it says nothing."""
    scope = _received.get()
    if scope is None or scope["type"] == "lifespan":
        return Origin()
    headers = Headers(scope=scope)
    agent = headers.get("user-agent", "")[:LONGEST_AGENT]
    client = scope.get("client")
    return Origin(
        address=_address(client[0] if client else None),
        agent=agent,
        via=_PROGRAMS.get(agent.partition("/")[0].partition(" ")[0], "api"),
        request_id=_request_id(scope, headers),
        server=scope["app"].state.services.settings.name,
    )


def _address(text: str | None) -> str | None:
    try:
        return str(ip_address(text or ""))
    except ValueError:
        return None  # a socket of this machine


def _request_id(scope: Scope, headers: Headers) -> str:
    """What the client calls the request, else a name of our own: one for all entries of the request."""
    given = headers.get("x-request-id", "")
    if given and len(given) <= LONGEST_ID and given.isascii() and given.isprintable():
        return given
    state: dict[str, object] = scope.setdefault("state", {})
    return str(state.setdefault("request_id", uuid4()))
