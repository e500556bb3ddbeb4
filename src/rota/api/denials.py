"""Audits what is refused to agents: a few rows of each sender and minute, so that nobody fills the log by knocking."""

from __future__ import annotations

import time
from collections.abc import Callable
from ipaddress import ip_address

import structlog
from fastapi import Request
from starlette.requests import HTTPConnection

from rota.api.audited import audit, audit_anonymous
from rota.model.errors import Problem
from rota.model.tenant import Caller
from rota.store.database import Database

log = structlog.get_logger()

ROWS_A_MINUTE = 10  # of one sender
MOST_ROWS_A_MINUTE = 300  # of all


class Denials:
    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._minute = 0
        self._rows: dict[str, int] = {}  # by sender
        self._left_out = 0

    async def note(self, sender: str, action: str, target: str, reason: str, caller: Caller | None = None) -> None:
        """`sender`: whose rows are counted. Never fails: the refusal stands without its row."""
        if not self._is_due(sender):
            return
        log.warning("denied", action=action, target=target, reason=reason[:200])
        try:
            async with self._database.engine() as connection:
                if caller is None:
                    await audit_anonymous(connection, target, action, target, outcome="denied", reason=reason)
                else:
                    await audit(connection, caller, action, target, outcome="denied", reason=reason)
        except Problem as problem:
            log.warning("denials.database_away", error=problem.detail)

    def _is_due(self, sender: str) -> bool:
        minute = int(self._clock() // 60)
        if minute != self._minute:
            if self._left_out:
                log.warning("denials.left_out", rows=self._left_out)
            self._minute, self._rows, self._left_out = minute, {}, 0
        rows = self._rows.get(sender, 0)
        if rows >= ROWS_A_MINUTE or sum(self._rows.values()) >= MOST_ROWS_A_MINUTE:
            self._left_out += 1
            return False
        self._rows[sender] = rows + 1
        return True

    @staticmethod
    def address(request: Request | HTTPConnection) -> str | None:
        """Of the sender; None: a socket of this machine."""
        try:
            return str(ip_address((request.client.host if request.client else "").partition("%")[0]))
        except ValueError:
            return None
