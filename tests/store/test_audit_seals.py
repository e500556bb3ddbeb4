"""What the seals of the audit log find: any row that was changed, removed or added by those who can drop the triggers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from rota.store import audit_seals
from rota.store.audit import drop_old_month, record
from rota.store.audit_seals import seal_rows
from rota.store.audit_sums import head_of
from rota.store.audit_verification import Part, has_head, verify_part
from tests.harness.postgres import TestPostgres
from tests.store.test_audit import entry


@pytest.fixture
def url(postgres: TestPostgres) -> str:
    return postgres.create()


@pytest.fixture
async def log(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of a superuser to a database of its own."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


async def write(log: asyncpg.Connection, *names: str) -> list[int]:
    """One row a transaction."""
    return [number for name in names for number in await record(log, entry(name))]


async def seal_all(log: asyncpg.Connection, most: int = 1_000) -> None:
    while await seal_rows(log, most=most):
        continue


async def forge(log: asyncpg.Connection, statement: str, *arguments: object) -> None:
    """What a superuser does behind the back of the triggers."""
    async with log.transaction():
        await log.execute("set local session_replication_role = replica")
        await log.execute(statement, *arguments)


async def verified(log: asyncpg.Connection, seals: int = 2) -> Part:
    """All of the chain, in small parts; their findings and counts together."""
    whole = await verify_part(log, after=None, seals=seals)
    while whole.next is not None:
        part = await verify_part(log, after=whole.next, seals=seals)
        part.findings[:0] = whole.findings
        part.seals += whole.seals
        part.rows += whole.rows
        whole = part
    return whole


def said(part: Part) -> list[tuple[str, int | None, tuple[int, ...]]]:
    return [(one.what, one.seal, one.rows) for one in part.findings]


async def test_an_untouched_log_has_nothing_to_find(log: asyncpg.Connection) -> None:
    await write(log, *"abcdefg")
    await seal_all(log, most=2)
    await write(log, "tail")
    part = await verified(log)
    assert (said(part), part.seals, part.rows, part.unsealed) == ([], 4, 7, 1)
    last = await audit_seals.newest_seal(log)
    assert last is not None
    assert part.head == head_of(last)
    assert await has_head(log, part.head)


async def test_an_empty_log_has_nothing_to_find(log: asyncpg.Connection) -> None:
    await seal_all(log)
    part = await verified(log)
    assert (said(part), part.seals, part.head, part.unsealed) == ([], 0, None, 0)


CHANGES = {
    "at": "at + interval '1 microsecond'",
    "xid": "'4'::xid8",
    "tenant": "coalesce(tenant, 0) + 1",
    "actor_kind": "'service'",
    "actor": "'bob'",
    "credential": "'token x'",
    "on_behalf_of": "'cy'",
    "via": "'ui'",
    "action": "'pool.add'",
    "object_kind": "'node'",
    "object_id": "object_id || '2'",
    "outcome": "'failed'",
    "reason": "'because'",
    "before": """'{"a": 1}'""",
    "after": """'{"a": 1}'""",
    "selection": """'{"a": 1}'""",
    "count": "5",
    "address": "'10.0.0.1'",
    "agent": "'curl'",
    "request_id": "'r'",
    "server": "'s'",
}


async def test_a_change_of_any_column_is_found_in_its_row(log: asyncpg.Connection) -> None:
    columns = {
        row["attname"]
        for row in await log.fetch(
            "select attname from pg_attribute where attrelid = 'audit_log'::regclass and attnum > 0 and not attisdropped"
        )
    }
    assert columns == set(CHANGES) | {"id"}
    ids = dict(zip(CHANGES, await write(log, *CHANGES), strict=True))
    await write(log, "last")
    await seal_all(log, most=4)
    for column, value in CHANGES.items():
        await forge(log, f"update audit_log set {column} = {value} where id = $1", ids[column])
    part = await verified(log)
    assert {one.what for one in part.findings} == {"changed"}
    assert sorted(number for one in part.findings for number in one.rows) == sorted(ids.values())


async def test_a_removed_row_is_found(log: asyncpg.Connection) -> None:
    ids = await write(log, "a", "b", "c")
    await seal_all(log)
    await forge(log, "delete from audit_log where id = $1", ids[1])
    assert said(await verified(log)) == [("missing", 1, (ids[1],))]


async def test_a_row_that_is_slipped_in_among_sealed_ones_is_found(log: asyncpg.Connection) -> None:
    [first, _] = await write(log, "a", "b")
    await write(log, "c")
    await seal_all(log, most=2)
    await forge(
        log,
        """insert into audit_log (id, xid, at, actor_kind, actor, action, object_kind, object_id)
            select -5, xid, at, 'user', 'eve', 'pool.set', 'pool', 'x' from audit_log where id = $1""",
        first,
    )
    found = said(await verified(log))
    assert [(what, rows) for what, _, rows in found] == [("inserted", (-5,))]


async def test_a_rewritten_seal_is_found_where_the_chain_goes_on(log: asyncpg.Connection) -> None:
    ids = await write(log, "a", "b", "c")
    await seal_all(log, most=1)
    await forge(log, "update audit_log set actor = 'eve' where id = $1", ids[1])
    seal = await audit_seals.read_seal(log, 2)
    row = (await audit_seals.rows_by_id(log, [ids[1]]))[0]
    assert seal is not None
    previous = await audit_seals.read_seal(log, 1)
    start = audit_seals.Start(seal.after_xid, seal.after_id, seal.least_id)
    [forged] = audit_seals.seals_of([row], previous, start, seal.at)
    await forge(log, "update audit_seals set digests = $1, hash = $2 where number = 2", forged.digests, forged.hash)
    assert said(await verified(log)) == [("chain-broken", 3, ())]
    await forge(log, "update audit_seals set hash = $1 where number = 2", seal.hash)
    assert said(await verified(log)) == [("seal-changed", 2, ())]


async def test_a_removed_seal_and_a_removed_beginning_are_found(log: asyncpg.Connection) -> None:
    await write(log, *"abcd")
    await seal_all(log, most=1)
    await forge(log, "delete from audit_seals where number = 3")
    assert [one[:2] for one in said(await verified(log))] == [("seal-missing", 3)]
    await forge(log, "delete from audit_seals where number = 1")
    found = [one.what for one in (await verified(log)).findings]
    assert found == ["inserted", "no-beginning", "seal-missing"]


async def test_a_removed_tail_is_found_by_a_head_that_was_written_down(log: asyncpg.Connection) -> None:
    ids = await write(log, "a", "b")
    await seal_all(log, most=1)
    head = (await verified(log)).head
    assert head is not None
    await forge(log, "delete from audit_seals where number = 2")
    await forge(log, "delete from audit_log where id = $1", ids[1])
    assert said(await verified(log)) == []
    assert not await has_head(log, head)


async def test_a_transaction_that_stays_open_is_sealed_later_in_order(log: asyncpg.Connection, url: str) -> None:
    slow = await asyncpg.connect(url)
    try:
        slow_transaction = slow.transaction()
        await slow_transaction.start()
        [low] = await record(slow, entry("low"))
        after = await write(log, "high", "higher")
        await seal_all(log)
        assert (await verified(log)).unsealed == 2
        await slow_transaction.commit()
    finally:
        await slow.close()
    await seal_all(log)
    seal = await audit_seals.newest_seal(log)
    assert seal is not None
    assert seal.ids == (low, *after)
    part = await verified(log)
    assert (said(part), part.unsealed) == ([], 0)


async def test_two_nodes_that_seal_at_once_make_one_chain(log: asyncpg.Connection, url: str) -> None:
    ids = await write(log, *map(str, range(60)))
    others = [await asyncpg.connect(url) for _ in range(3)]
    try:

        async def work(connection: asyncpg.Connection) -> None:
            while not await connection.fetchval("select coalesce(sum(cardinality(ids)), 0) = 60 from audit_seals"):
                await seal_rows(connection, most=3)

        await asyncio.gather(*map(work, others))
    finally:
        for connection in others:
            await connection.close()
    assert await log.fetchval("select count(*) from audit_seals") == 20
    part = await verified(log)
    assert (said(part), part.rows, part.unsealed) == ([], len(ids), 0)


async def test_a_restored_database_that_counts_transactions_anew_goes_on_with_the_chain(
    log: asyncpg.Connection,
) -> None:
    await write(log, "a", "b")
    await seal_all(log)
    [late] = await write(log, "late")  # not sealed before the dump
    # A restore keeps the rows and counts transactions from a smaller number on: here the rows get larger ones instead.
    await forge(log, "update audit_log set xid = (xid::text::bigint + 1000000)::text::xid8")
    await forge(log, "truncate audit_seals")
    await _seal_as_if_before(log, late)
    new = await write(log, "c", "d")
    await seal_all(log)
    part = await verified(log)
    assert (said(part), part.rows, part.unsealed) == ([], 5, 0)
    seals = await audit_seals.read_seals(log, after=0, limit=10)
    assert [(one.ids, one.least_id) for one in seals] == [
        ((late - 2, late - 1), 0),
        ((late,), 0),
        (tuple(new), late + 1),
    ]
    await forge(log, "update audit_log set reason = 'x' where id = any($1)", [late, new[0]])
    assert [(what, rows) for what, _, rows in said(await verified(log))] == [
        ("changed", (late,)),
        ("changed", (new[0],)),
    ]


async def _seal_as_if_before(log: asyncpg.Connection, below: int) -> None:
    rows = await audit_seals.rows_by_id(log, [below - 2, below - 1])
    start = audit_seals.Start()
    for seal in audit_seals.seals_of(rows, None, start, rows[0]["at"]):
        await audit_seals._insert(log, seal)


async def _backdate(log: asyncpg.Connection, number: int, month: str) -> None:
    """A row of an earlier month, not sealed yet."""
    await log.execute("select make_audit_month($1::text::date)", month)
    await forge(log, "update audit_log set at = $2::text::timestamptz where id = $1", number, f"{month[:8]}28 12:00Z")


async def test_a_dropped_month_takes_its_seals_along_and_the_chain_begins_after_it(log: asyncpg.Connection) -> None:
    old, older_day, new = await write(log, "old", "older", "new")
    await _backdate(log, old, "2020-01-01")
    await _backdate(log, older_day, "2020-02-01")
    await seal_all(log)
    assert said(await verified(log)) == []
    months = []
    while (month := await drop_old_month(log, 400, "s1")) is not None:
        months.append(str(month)[:7])
        await seal_all(log)
        assert said(await verified(log)) == []
    assert months == ["2020-01", "2020-02"]
    rows = await log.fetch("select object_id, actor, reason from audit_log where action = 'audit.drop' order by id")
    assert [tuple(row) for row in rows] == [
        ("2020-01", "retention", "older than 400 days"),
        ("2020-02", "retention", "older than 400 days"),
    ]
    assert {row["id"] for row in await audit_seals.rows_by_id(log, [old, older_day, new])} == {new}
    await forge(log, "delete from audit_seals where number = (select min(number) from audit_seals)")
    assert {one.what for one in (await verified(log)).findings} == {"inserted", "no-beginning"}


async def test_a_row_from_before_midnight_goes_with_its_own_month(log: asyncpg.Connection) -> None:
    """Its transaction was open over the end of the month, and is sealed with the next day."""
    first, late = await write(log, "february", "january")
    await _backdate(log, first, "2020-02-01")
    await _backdate(log, late, "2020-01-01")
    await write(log, "now")
    await seal_all(log)
    seals = await audit_seals.read_seals(log, after=0, limit=9)
    assert [(one.earlier, one.earlier_months) for one in seals] == [((late,), (202001,)), ((), ())]
    await forge(log, "delete from audit_log where id = $1", late)
    assert said(await verified(log)) == [("missing", 1, (late,))], "its month was not dropped"
    assert str(await drop_old_month(log, 400, "s1"))[:7] == "2020-01"
    await seal_all(log)
    assert said(await verified(log)) == []


async def test_a_month_stays_until_all_of_it_is_sealed(log: asyncpg.Connection) -> None:
    [old, _] = await write(log, "old", "new")
    await _backdate(log, old, "2020-01-01")
    assert await drop_old_month(log, 400, "s1") is None
    await seal_all(log)
    assert await drop_old_month(log, 400, "s1") is not None


@pytest.mark.parametrize(
    "change", ["update audit_seals set hash = ''", "delete from audit_seals", "truncate audit_seals"]
)
async def test_the_role_that_owns_the_seals_changes_none(log: asyncpg.Connection, change: str) -> None:
    await write(log, "a")
    await seal_all(log)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="the audit log is insert-only"):
        await log.execute(change)


async def test_a_change_that_is_rolled_back_leaves_no_row(log: asyncpg.Connection) -> None:
    transaction = log.transaction()
    await transaction.start()
    await write(log, "a")
    await transaction.rollback()
    await seal_all(log)
    assert await log.fetchval("select count(*) from audit_log") == 0
