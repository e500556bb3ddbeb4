"""What a server node answers until it has its database: that it waits, and why; also in its log."""

from __future__ import annotations

import time

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.api.answers import answer
from rota.api.problems import problem_response
from rota.model.answers.cluster import Health
from rota.model.errors import unavailable

log = structlog.get_logger()

REMIND_SECONDS = 60.0  # between two lines of the log with the same reason


class Entrance:
    """The ASGI application of a server node: its own answers until `app` is set."""

    def __init__(self) -> None:
        self.app: ASGIApp | None = None
        self._why = "the database is being prepared"
        self._remind_at = 0.0

    def wait(self, why: str, error: BaseException) -> None:
        if why != self._why or time.monotonic() >= self._remind_at:
            log.warning("node.waits_for_database", why=why, error=repr(error)[:300])
            self._remind_at = time.monotonic() + REMIND_SECONDS
        self._why = why

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.app is not None:
            await self.app(scope, receive, send)
        elif scope["path"] == "/healthz":
            await answer(Health(status="ok"))(scope, receive, send)
        else:
            problem = unavailable(f"this server node is starting: {self._why}")
            await problem_response(problem)(scope, receive, send)
