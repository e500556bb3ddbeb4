"""When and from where each token was last used, for people who look for tokens that nobody needs.

A request never waits for this: a look-up of a token notes it in memory, and a loop writes what was noted. A row is
written at most once in `WRITE_AGAIN`, however many server nodes see the token.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import structlog

from rota.model.errors import Problem
from rota.store.database import Database
from rota.store.tokens import note_token_use

log = structlog.get_logger()

WRITE_AGAIN = timedelta(minutes=5)
WRITE_SECONDS = 1.0
MOST_NOTED = 10_000


class TokenUse:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: dict[int, str | None] = {}  # by token: the address

    def note(self, token: int, used_at: datetime | None, address: str | None) -> None:
        """The token is in use. `used_at`: what the database says."""
        if (used_at is None or used_at < datetime.now(UTC) - WRITE_AGAIN) and len(self._noted) < MOST_NOTED:
            self._noted[token] = address

    async def run(self) -> None:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            await self.write()

    async def write(self) -> None:
        """Writes what was noted. What is lost with the database is noted again by the next use."""
        if not self._noted:
            return
        noted, self._noted = self._noted, {}
        try:
            async with self._database.engine() as connection:
                await note_token_use(
                    connection, {token: _plain(address) for token, address in noted.items()}, again=WRITE_AGAIN
                )
        except Problem as error:
            log.debug("token_use.database_away", error=error.detail)


def _plain(address: str | None) -> str | None:
    """An address that the database takes; None for a socket's peer, which has none."""
    try:
        return str(ip_address((address or "").partition("%")[0]))
    except ValueError:
        return None
