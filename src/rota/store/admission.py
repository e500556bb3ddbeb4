"""Writes admitted tasks: one transaction for many requests with COPY, or one statement for a lone task.

The first row of each transaction is its own number in `admission_commits`. After a lost reply to COMMIT, inserting
that row again waits for the transaction in doubt and shows whether it was committed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from rota.model.event import Kind
from rota.store import copy_format
from rota.store.database import AnyConnection, Connection
from rota.store.statements import columns, sql
from rota.store.task_rows import QUEUE_COLUMNS, TASK_COLUMNS, Rows, queue_records, task_records

Submitted = Mapping[int, Sequence[int]]  # tenant → its new tasks

EDGE_COLUMNS = ("parent", "child", "child_pool", "upstream")


async def begin(connection: Connection, commit_id: UUID) -> None:
    """Opens the transaction with its own row. Fails if `was_committed` has declared it dead."""
    # Two statements in one round trip take no arguments; a UUID is safe in the text.
    await connection.execute(f"begin; insert into admission_commits (id) values ('{commit_id}')")


async def was_committed(connection: Connection, commit_id: UUID) -> bool:
    """Waits for a transaction in doubt. If it was not committed, the row left here keeps it from committing later."""
    return await connection.fetchval(sql("admission/was_committed"), commit_id) is None


async def commit(connection: Connection, submitted: Submitted) -> None:
    """Commits, and before that writes the events of the submission: without a round trip of their own."""
    await connection.execute(f"{_events_of(submitted)}commit")


async def record_submitted(connection: AnyConnection, submitted: Submitted) -> None:
    """The events of tasks whose transaction others commit."""
    if submitted:
        await connection.execute(_events_of(submitted))


def _events_of(submitted: Submitted) -> str:
    """One row for each tenant. Statements without arguments: there is nothing but numbers in them."""
    return "".join(
        "insert into events (tenant, kind, tasks) "
        f"values ({tenant:d}, {Kind.SUBMITTED:d}, '{{{','.join(map(str, _runs(tasks)))}}}'); "
        for tenant, tasks in submitted.items()
    )


def _runs(tasks: Iterable[int]) -> list[int]:
    """The first and last of each run of consecutive ids: a thousand ids would make a row that is stored apart."""
    ends: list[int] = []
    for task in sorted(tasks):
        if ends and task == ends[-1] + 1:
            ends[-1] = task
        else:
            ends += (task, task)
    return ends


async def roll_back(connection: Connection) -> None:
    await connection.execute("rollback")


async def copy_rows(connection: AnyConnection, rows: Sequence[Rows]) -> None:
    """Writes the tasks and their queue entries, and the tags and dependencies of tasks that have some."""
    await _copy(connection, "tasks", TASK_COLUMNS, task_records(rows))
    await _copy(connection, "queue", QUEUE_COLUMNS, queue_records(rows))
    tagged = [row.draft.id for row in rows if row.draft.template.tags is not None]
    if tagged:
        await connection.execute(sql("admission/keep_tags"), tagged)
    dependents = [row.draft.id for row in rows if row.draft.parents or row.draft.siblings]
    if dependents:
        await connection.execute(sql("admission/keep_dependents"), dependents)


async def _copy(connection: AnyConnection, table: str, names: Iterable[str], records: Iterable[bytes]) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"".join((copy_format.START, *records, copy_format.END))

    await connection.copy_to_table(table, source=source(), columns=list(names), format="binary")


async def copy_edges(connection: AnyConnection, rows: Sequence[tuple[int, int, int, int]]) -> None:
    await connection.copy_records_to_table("edges", records=rows, columns=EDGE_COLUMNS)


async def insert_alone(connection: Connection, commit_id: UUID, rows: Rows, claim: KeyClaim | None) -> None:
    """Writes and commits one task in one round trip; COPY would take two for each table.

    Raises UniqueViolationError if the key was used before; nothing was written then.
    """
    key = () if claim is None else (claim.tenant, claim.key_hash, claim.body_hash, claim.task)
    statement = _ALONE[claim is not None, rows.draft.template.tags is not None]
    await connection.execute(statement, commit_id, *rows.values(), *key)


def _alone(*, key: bool, tagged: bool) -> str:
    """The statement of `insert_alone`: one of its parameters for each column, numbered in the order of the values."""
    number = iter(range(2, 1000))

    def insert(table: str, names: Sequence[str]) -> str:
        parameters = ", ".join(f"${next(number)}" for _ in names)
        return f"insert into {table} ({', '.join(names)}) values ({parameters})"

    task, queue = insert("tasks", TASK_COLUMNS), insert("queue", QUEUE_COLUMNS)
    parts = ["own as (insert into admission_commits (id) values ($1))"]
    if tagged:
        parts += [
            f"task as ({task} returning id, tenant, tags)",
            """tag as (
                insert into task_tags (task, tenant, name, value)
                select task.id, task.tenant, one.key, one.value
                from task cross join lateral jsonb_each_text(task.tags) one
            )""",
        ]
    else:
        parts.append(f"task as ({task} returning id, tenant)")
    parts.append(
        "event as (insert into events (tenant, kind, tasks) "
        f"select task.tenant, {Kind.SUBMITTED:d}, array[task.id, task.id] from task)"
    )
    if key:
        parts.append(f"key as ({insert('idempotency', ('tenant', 'key_hash', 'body_hash', 'task'))})")
    return f"with {', '.join(parts)} {queue}"


_ALONE = {(key, tagged): _alone(key=key, tagged=tagged) for key in (False, True) for tagged in (False, True)}


@dataclass(frozen=True, slots=True)
class KeyClaim:
    tenant: int
    key_hash: bytes
    body_hash: bytes
    task: int
    batch: list[int] | None = None  # all ids, if the key is for a whole batch


async def claim_keys(connection: Connection, claims: Sequence[KeyClaim]) -> dict[tuple[int, bytes], KeyClaim]:
    """Claims idempotency keys and returns the claims that were there first. Waits for concurrent claims."""
    ordered = sorted(claims, key=lambda claim: (claim.tenant, claim.key_hash))
    won = await connection.fetch(
        sql("admission/claim_keys"), *columns(ordered, "tenant", "key_hash", "body_hash", "task")
    )
    mine = {(row["tenant"], row["key_hash"]) for row in won}
    for claim in ordered:
        if claim.batch is not None and (claim.tenant, claim.key_hash) in mine:
            await connection.execute(sql("admission/claim_for_batch"), claim.tenant, claim.key_hash, claim.batch)
    lost = [(claim.tenant, claim.key_hash) for claim in ordered if (claim.tenant, claim.key_hash) not in mine]
    return await _read_claims(connection, lost) if lost else {}


async def find_claims(
    connection: AnyConnection, tenant: int, hashes: Iterable[bytes]
) -> dict[tuple[int, bytes], KeyClaim]:
    """The claims of keys that were used before. Claims nothing."""
    return await _read_claims(connection, [(tenant, key_hash) for key_hash in hashes])


async def _read_claims(
    connection: AnyConnection, keys: Sequence[tuple[int, bytes]]
) -> dict[tuple[int, bytes], KeyClaim]:
    rows = await connection.fetch(sql("admission/read_claims"), *columns(keys, 0, 1))
    return {(row["tenant"], row["key_hash"]): KeyClaim(*row) for row in rows}


async def drop_claims(connection: Connection, claims: Sequence[KeyClaim]) -> None:
    """Gives back the keys of a refused request."""
    await connection.execute(sql("admission/drop_claims"), *columns(claims, "tenant", "key_hash"))


@dataclass(frozen=True, slots=True)
class Parent:
    id: int
    tenant: int
    state: int | None  # the final state; None: the task has not ended


async def lock_parents(connection: AnyConnection, ids: Iterable[int]) -> dict[int, Parent]:
    """Locks live parents so that they can't end before we commit; reads how the others ended. Omits unknown ids."""
    asked = sorted(set(ids))
    live = await connection.fetch(sql("admission/lock_live_parents"), asked)
    parents = {row["id"]: Parent(row["id"], row["tenant"], None) for row in live}
    missing = [number for number in asked if number not in parents]
    if missing:
        ended = await connection.fetch(sql("admission/read_ended_parents"), missing)
        parents |= {row["task"]: Parent(row["task"], row["tenant"], row["state"]) for row in ended}
    return parents


async def take_ids(connection: Connection, amount: int) -> int:
    """The first of so many new ids."""
    return int(await connection.fetchval(sql("admission/take_ids"), amount))


async def make_partition(connection: Connection, first: int, size: int) -> None:
    await connection.execute("set lock_timeout = '2s'")
    await connection.execute(sql("admission/make_partition"), first, size)
