"""Rows of the audit log that no request and no start waits for: what was refused, who looked into another tenant, and
which tasks were given secrets.

They are noted in memory, up to a bound, and written by a loop; what a node had not written when it died is lost,
at most a second of it. Refusals and reads are sampled: of each actor ten a minute, the others in one row with their
number.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import structlog

from rota.model.audit import Entry, SecretUse
from rota.model.errors import Presented, Problem
from rota.store.audit import record
from rota.store.database import AnyConnection, Database
from rota.store.statements import sql

log = structlog.get_logger()

WRITE_SECONDS = 1.0
WINDOW_SECONDS = 60.0
ROWS_A_WINDOW = 10
MOST_NOTED = 5_000  # rows that wait to be written
MOST_ACTORS = 5_000  # whose rows are counted at once
MOST_PRESENTED = 200  # credentials that are looked up in a round
ROWS_AT_ONCE = 500


@dataclass(slots=True)
class _Window:
    began: float
    rows: int = 0
    more: int = 0
    last: Entry | None = None  # of those that were only counted


class AuditNotes:
    def __init__(self, database: Database, server: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._server = server
        self._clock = clock
        self._rows: list[Entry] = []
        self._uses: list[SecretUse] = []
        self._presented: list[tuple[Presented, Entry]] = []
        self._windows: dict[str, _Window] = {}
        self._dropped = 0

    # ---- noting: never waits -----------------------------------------------------------------------------------------

    def sampled(self, entry: Entry, key: str, *, rows: int = ROWS_A_WINDOW) -> None:
        """A row, unless there were so many with this key within a minute: the others are counted in one more row."""
        window = self._windows.get(key)
        if window is None or self._is_over(window):
            if window is None and len(self._windows) >= MOST_ACTORS:
                self._dropped += 1
                return
            if window is not None:
                self._close(window)
            window = self._windows[key] = _Window(self._clock())
        if window.rows < rows:
            window.rows += 1
            self.row(entry)
        else:
            window.more += 1
            window.last = entry

    def row(self, entry: Entry) -> None:
        if len(self._rows) < MOST_NOTED:
            self._rows.append(entry)
        else:
            self._dropped += 1

    def used(self, use: SecretUse) -> None:
        """An attempt was given secrets."""
        if len(self._uses) < MOST_NOTED:
            self._uses.append(use)
        else:
            self._dropped += 1

    def presented(self, credential: Presented, entry: Entry) -> None:
        """A credential that opens nothing. It is written if it has ended; of unknown ones nothing is."""
        if len(self._presented) < MOST_PRESENTED:
            self._presented.append((credential, entry))
        else:
            self._dropped += 1

    # ---- writing -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            await self.write()

    async def write(self, *, last: bool = False) -> None:
        """Writes what was noted, and the counts of windows that are over. `last`: of all windows."""
        for key, window in list(self._windows.items()):
            if last or self._is_over(window):
                del self._windows[key]
                self._close(window)
        if not (self._rows or self._uses or self._presented or self._dropped):
            return
        try:
            async with self._database.engine() as connection:
                await self._write_presented(connection)
                await self._write_uses(connection)
                while self._rows:
                    batch = self._rows[:ROWS_AT_ONCE]
                    await record(connection, *batch)
                    del self._rows[: len(batch)]
                if self._dropped:
                    number = self._dropped
                    await record(connection, self._lost(number))
                    self._dropped -= number
        except Problem as error:
            log.debug("audit_notes.database_away", error=error.detail)

    def _is_over(self, window: _Window) -> bool:
        return self._clock() >= window.began + WINDOW_SECONDS

    def _close(self, window: _Window) -> None:
        if window.last is not None:
            self.row(msgspec.structs.replace(window.last, count=window.more))

    def _lost(self, number: int) -> Entry:
        return Entry(
            action="audit.overflow",
            object_kind="audit",
            object_id="notes",
            actor_kind="system",
            actor=self._server,
            outcome="failed",
            reason="more refusals and reads than this server node keeps until they are written",
            count=number,
            server=self._server,
        )

    async def _write_presented(self, connection: AnyConnection) -> None:
        asked, self._presented = self._presented, []
        for credential, entry in asked:
            known = await _owner_of(connection, credential)
            if known is not None:
                self.sampled(msgspec.structs.replace(entry, **known), f"ended {known['actor']} {known['credential']}")

    async def _write_uses(self, connection: AnyConnection) -> None:
        uses = self._uses[:MOST_NOTED]
        if not uses:
            return
        found = await connection.fetch(sql("audit/users_of"), sorted({use.task for use in uses}))
        users = {row["id"]: row["user_name"] for row in found}
        entries = [self._use(use, name, users.get(use.task, "")) for use in uses for name in use.names]
        for first in range(0, len(entries), ROWS_AT_ONCE):
            await record(connection, *entries[first : first + ROWS_AT_ONCE])
        del self._uses[: len(uses)]

    def _use(self, use: SecretUse, name: str, user: str) -> Entry:
        return Entry(
            tenant=use.tenant,
            action="secret.use",
            object_kind="secret",
            object_id=name,
            actor_kind="task",
            actor=f"task {use.task}",
            on_behalf_of=user,
            after={"attempt": use.attempt},
            server=self._server,
        )


async def _owner_of(connection: AnyConnection, credential: Presented) -> dict[str, object] | None:
    """Whose token or session it was. None: it never was one, or its secret is wrong."""
    if credential.kind == "session":
        row = await connection.fetchrow(sql("audit/ended_session"), credential.secret_hash)
        name = "" if row is None else f"session {row['id']}"
    else:
        row = await connection.fetchrow(sql("audit/ended_token"), credential.public_id)
        if row is not None and not hmac.compare_digest(row["secret_hash"], credential.secret_hash):
            return None
        name = "" if row is None else f"token {row['name'] or row['id']}"
    if row is None:
        return None
    return {"tenant": row["tenant"], "actor_kind": row["kind"], "actor": row["actor"], "credential": name}
