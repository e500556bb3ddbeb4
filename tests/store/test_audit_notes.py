"""What no request waits for: sampled, counted, bounded, and never lost by a database that is away for a while."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import asyncpg
import pytest

from rota.model.audit import Entry, SecretUse
from rota.model.errors import Presented
from rota.store.audit_notes import MOST_ACTORS, MOST_NOTED, ROWS_A_WINDOW, WINDOW_SECONDS, AuditNotes
from tests.store.rows import Rows
from tests.store.test_audit import entry


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def notes(rows: Rows, clock: Clock) -> AuditNotes:
    return AuditNotes(rows.database, f"server-{rows.tenant}", clock=clock)


def denied(rows: Rows, target: str) -> Entry:
    return entry(target, tenant=rows.tenant, outcome="denied")


async def written(rows: Rows) -> list[tuple[str, str, int | None]]:
    found = await rows.connection.fetch(
        "select action, object_id, count from audit_log where tenant = $1 order by id", rows.tenant
    )
    return [tuple(row) for row in found]


async def test_ten_a_minute_are_written_and_the_others_counted_at_its_end(
    rows: Rows, notes: AuditNotes, clock: Clock
) -> None:
    for number in range(ROWS_A_WINDOW + 27):
        notes.sampled(denied(rows, str(number)), "ann")
    notes.sampled(denied(rows, "bobs"), "bob")
    await notes.write()
    ten = [("pool.set", str(number), None) for number in range(ROWS_A_WINDOW)]
    assert await written(rows) == [*ten, ("pool.set", "bobs", None)]
    clock.now += WINDOW_SECONDS
    await notes.write()
    assert (await written(rows))[11:] == [("pool.set", "36", 27)]
    notes.sampled(denied(rows, "later"), "ann")
    await notes.write()
    assert (await written(rows))[12:] == [("pool.set", "later", None)]


async def test_a_count_is_not_lost_when_the_next_minute_begins_before_it_is_written(
    rows: Rows, notes: AuditNotes, clock: Clock
) -> None:
    for number in range(ROWS_A_WINDOW + 3):
        notes.sampled(denied(rows, str(number)), "ann")
    clock.now += WINDOW_SECONDS
    notes.sampled(denied(rows, "next"), "ann")
    await notes.write()
    assert (await written(rows))[ROWS_A_WINDOW:] == [("pool.set", "12", 3), ("pool.set", "next", None)]


async def test_a_node_that_stops_writes_what_it_has_counted(rows: Rows, notes: AuditNotes) -> None:
    for number in range(ROWS_A_WINDOW + 2):
        notes.sampled(denied(rows, str(number)), "ann")
    await notes.write(last=True)
    assert (await written(rows))[-1] == ("pool.set", "11", 2)


async def test_what_is_beyond_the_bounds_is_counted(rows: Rows, notes: AuditNotes) -> None:
    for number in range(MOST_NOTED + 5):
        notes.row(denied(rows, str(number)))
    for number in range(MOST_ACTORS + 2):
        notes.sampled(denied(rows, "x"), f"actor {number}")
    await notes.write()
    assert len(await written(rows)) == MOST_NOTED
    [lost] = await rows.connection.fetch(
        "select outcome, count from audit_log where action = 'audit.overflow' and actor = $1", f"server-{rows.tenant}"
    )
    assert tuple(lost) == ("failed", 5 + MOST_ACTORS + 2)


async def test_rows_wait_while_the_database_is_away(rows: Rows, notes: AuditNotes) -> None:
    away = AuditNotes(type(rows.database)("postgresql://127.0.0.1:1/none"), "s")
    away.row(denied(rows, "waits"))
    away.used(SecretUse(tenant=rows.tenant, task=1, attempt=1, names=("A",)))
    await away.write()
    away._database = rows.database
    await away.write()
    assert await written(rows) == [("secret.use", "A", None), ("pool.set", "waits", None)]


async def test_each_secret_that_a_task_is_given_is_a_row(rows: Rows, notes: AuditNotes) -> None:
    task = await rows.task()
    notes.used(SecretUse(tenant=rows.tenant, task=task, attempt=2, names=("A", "B")))
    await notes.write()
    found = await rows.connection.fetch(
        """select object_id, actor_kind, actor, on_behalf_of, after->>'attempt' from audit_log
            where tenant = $1 and action = 'secret.use' order by id""",
        rows.tenant,
    )
    [user] = await rows.connection.fetchrow("select user_name from tasks where id = $1", task)
    assert [tuple(row) for row in found] == [(name, "task", f"task {task}", user, "2") for name in ("A", "B")]


async def test_an_ended_token_is_known_by_its_secret_only(rows: Rows, notes: AuditNotes) -> None:
    right, wrong = hashlib.sha256(b"right").digest(), hashlib.sha256(b"wrong").digest()
    public = f"t{rows.tenant:011d}"
    await _add_token(rows.connection, rows.tenant, public, right)
    asked = Entry(action="task.read", object_kind="task", object_id="", actor_kind="anonymous", actor="")
    notes.presented(Presented("token", wrong, public), asked)
    notes.presented(Presented("token", right, "nobody000000"), asked)
    notes.presented(Presented("session", right), asked)
    await notes.write()
    assert await written(rows) == []
    notes.presented(Presented("token", right, public), asked)
    await notes.write()
    await notes.write()
    assert await written(rows) == [("task.read", "", None)]
    assert right.hex() not in repr(Presented("token", right, public))


async def _add_token(connection: asyncpg.Connection, tenant: int, public: str, secret_hash: bytes) -> None:
    await connection.execute(
        """insert into tokens (public_id, secret_hash, tenant, user_name, role, revoked_at)
            values ($1, $2, $3, 'old', 'member', now())""",
        public,
        secret_hash,
        tenant,
    )
