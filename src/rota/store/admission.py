"""Writes admitted tasks: one transaction for many requests with COPY, or one statement for a lone task.

The first row of each transaction is its own number in `admission_commits`. After a lost reply to COMMIT, inserting
that row again waits for the transaction in doubt and shows whether it was committed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from rota.store import copy_format
from rota.store.database import AnyConnection, Connection
from rota.store.statements import sql

TASK_COLUMNS = {
    "id": "bigint", "spec": "json", "idempotency_key": "text", "after_tasks": "bigint[]",
    "after_rules": "smallint[]", "scheduling": "smallint", "retry_of": "bigint", "start_by": "timestamptz",
    "urgent_at": "timestamptz",
    "tenant": "integer", "user_name": "text", "pool": "smallint", "kind": "smallint", "name": "text",
    "lane": "smallint", "priority": "integer", "tolerance_ms": "bigint", "tolerance_given": "boolean",
    "not_before": "timestamptz", "tier": "text", "shape": "integer", "server": "integer", "concurrency_key": "text",
    "concurrency_limit": "integer", "concurrency_global": "boolean", "cap_ms": "bigint", "attempts": "smallint",
    "backoff_ms": "integer", "backoff_limit_ms": "integer", "upstream": "smallint", "tags": "jsonb",
    "preemptible": "boolean", "category": "text", "unplaceable_waits": "boolean",
    "created_at": "timestamptz", "artifacts": "bytea[]", "schedule": "bigint", "scheduled_for": "timestamptz",
    "retry_rules": "json", "expires": "boolean",
}  # fmt: skip
QUEUE_COLUMNS = {
    "id": "bigint", "state": "smallint", "wake_at": "timestamptz", "start_by": "timestamptz", "expires": "boolean",
    "pool": "smallint", "tenant": "integer", "lane": "smallint", "urgency": "integer", "cap_ms": "bigint",
    "shape": "integer", "work": "integer", "attempts": "smallint", "concurrency_key": "text",
    "concurrency_limit": "integer", "concurrency_global": "boolean", "preemptible": "boolean",
}  # fmt: skip
_TASK_TYPES = tuple(TASK_COLUMNS.values())
_QUEUE_TYPES = tuple(QUEUE_COLUMNS.values())
_TASK_FIELDS = copy_format.encoders(_TASK_TYPES)
_QUEUE_FIELDS = copy_format.encoders(_QUEUE_TYPES)
EDGE_COLUMNS = ("parent", "child", "child_pool", "upstream")


async def begin(connection: Connection, commit_id: UUID) -> None:
    """Opens the transaction with its own row. Fails if `was_committed` has declared it dead."""
    # One round trip; the number is ours, so nothing foreign gets into the text.
    await connection.execute(f"begin; insert into admission_commits (id) values ('{commit_id}')")


async def was_committed(connection: Connection, commit_id: UUID) -> bool:
    """Waits for a transaction in doubt. If it was not committed, the row left here keeps it from committing later."""
    inserted = await connection.fetchval(
        "insert into admission_commits (id) values ($1) on conflict do nothing returning id", commit_id
    )
    return inserted is None


async def commit(connection: Connection) -> None:
    await connection.execute("commit")


async def roll_back(connection: Connection) -> None:
    await connection.execute("rollback")


task_row = copy_format.row_start(len(TASK_COLUMNS))
queue_row = copy_format.row_start(len(QUEUE_COLUMNS))


def task_fields(values: Sequence[object], *, first: int) -> bytes:
    """The fields of a task's row from column number `first` on, as COPY takes them."""
    return copy_format.fields(_TASK_FIELDS[first : first + len(values)], values)


def queue_fields(values: Sequence[object], *, first: int) -> bytes:
    return copy_format.fields(_QUEUE_FIELDS[first : first + len(values)], values)


async def copy_tasks(connection: AnyConnection, rows: Sequence[bytes]) -> None:
    await _copy(connection, "tasks", list(TASK_COLUMNS), rows)


async def keep_tags(connection: AnyConnection, tasks: Sequence[int]) -> None:
    """After `copy_tasks`, for those that may have tags."""
    await connection.execute(sql("keep_tags"), tasks)


async def copy_queue(connection: AnyConnection, rows: Sequence[bytes]) -> None:
    await _copy(connection, "queue", list(QUEUE_COLUMNS), rows)


async def insert_alone(
    connection: Connection, commit_id: UUID, task: bytes, queue: bytes, claim: KeyClaim | None, *, tagged: bool
) -> None:
    """Writes and commits one task in one round trip; COPY would take two for each table.

    Raises UniqueViolationError if the key was used before; nothing was written then.
    """
    rows = [*copy_format.values(_TASK_TYPES, task), *copy_format.values(_QUEUE_TYPES, queue)]
    if claim is not None:
        rows += (claim.tenant, claim.key_hash, claim.body_hash, claim.task)
    await connection.execute(_ALONE[claim is not None, tagged], commit_id, *rows)


def _numbered(first: int, count: int) -> str:
    return ", ".join(f"${number}" for number in range(first, first + count))


_BEHIND = 2 + len(TASK_COLUMNS) + len(QUEUE_COLUMNS)  # the number of the first argument behind the rows


def _alone(*, key: bool, tagged: bool) -> str:
    task = f"insert into tasks ({', '.join(TASK_COLUMNS)}) values ({_numbered(2, len(TASK_COLUMNS))})"
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
        parts.append(f"task as ({task})")
    if key:
        parts.append(
            f"key as (insert into idempotency (tenant, key_hash, body_hash, task) values ({_numbered(_BEHIND, 4)}))"
        )
    queue = f"""insert into queue ({", ".join(QUEUE_COLUMNS)})
        values ({_numbered(2 + len(TASK_COLUMNS), len(QUEUE_COLUMNS))})"""
    return f"with {', '.join(parts)} {queue}"


_ALONE = {(key, tagged): _alone(key=key, tagged=tagged) for key in (False, True) for tagged in (False, True)}


async def _copy(connection: AnyConnection, table: str, columns: list[str], rows: Sequence[bytes]) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"".join((copy_format.START, *rows, copy_format.END))

    await connection.copy_to_table(table, source=source(), columns=columns, format="binary")


async def copy_edges(connection: AnyConnection, rows: Sequence[tuple[int, int, int, int]]) -> None:
    await connection.copy_records_to_table("edges", records=rows, columns=EDGE_COLUMNS)


@dataclass(frozen=True, slots=True)
class KeyClaim:
    tenant: int
    key_hash: bytes
    body_hash: bytes
    task: int
    batch: list[int] | None = None  # all ids, when the key is a whole batch's


async def claim_keys(connection: Connection, claims: Sequence[KeyClaim]) -> dict[tuple[int, bytes], KeyClaim]:
    """Claims idempotency keys, in order, and returns the claims that were there first. Waits for concurrent ones."""
    ordered = sorted(claims, key=lambda claim: (claim.tenant, claim.key_hash))
    won = await connection.fetch(
        """insert into idempotency (tenant, key_hash, body_hash, task)
            select * from unnest($1::integer[], $2::bytea[], $3::bytea[], $4::bigint[])
            on conflict do nothing returning tenant, key_hash""",
        [claim.tenant for claim in ordered],
        [claim.key_hash for claim in ordered],
        [claim.body_hash for claim in ordered],
        [claim.task for claim in ordered],
    )
    mine = {(row["tenant"], row["key_hash"]) for row in won}
    for claim in ordered:
        if claim.batch is not None and (claim.tenant, claim.key_hash) in mine:
            await connection.execute(
                "update idempotency set batch = $3 where tenant = $1 and key_hash = $2",
                claim.tenant, claim.key_hash, claim.batch,
            )  # fmt: skip
    if len(won) == len(ordered):
        return {}
    losers = [claim for claim in ordered if (claim.tenant, claim.key_hash) not in mine]
    rows = await connection.fetch(
        """select idempotency.tenant, idempotency.key_hash, idempotency.body_hash, idempotency.task, idempotency.batch
            from unnest($1::integer[], $2::bytea[]) as asked (tenant, key_hash)
            join idempotency using (tenant, key_hash)""",
        [claim.tenant for claim in losers], [claim.key_hash for claim in losers],
    )  # fmt: skip
    return {(row["tenant"], row["key_hash"]): KeyClaim(*row) for row in rows}


async def keys_known(connection: AnyConnection, tenant: int, hashes: Sequence[bytes]) -> bool:
    """Whether all of these keys have been used."""
    found = await connection.fetchval(
        "select count(*) from idempotency where tenant = $1 and key_hash = any($2)", tenant, hashes
    )
    return bool(found == len(hashes))


async def find_claims(
    connection: AnyConnection, tenant: int, hashes: Sequence[bytes]
) -> dict[tuple[int, bytes], KeyClaim]:
    """Keys that have been used before, and for what. Claims nothing."""
    rows = await connection.fetch(
        """select tenant, key_hash, body_hash, task, batch from idempotency
            where tenant = $1 and key_hash = any($2)""",
        tenant, hashes,
    )  # fmt: skip
    return {(row["tenant"], row["key_hash"]): KeyClaim(*row) for row in rows}


async def drop_claims(connection: Connection, claims: Sequence[KeyClaim]) -> None:
    """Gives back keys of a request that turned out to be refused."""
    await connection.execute(
        """delete from idempotency using unnest($1::integer[], $2::bytea[]) as mine (tenant, key_hash)
            where idempotency.tenant = mine.tenant and idempotency.key_hash = mine.key_hash""",
        [claim.tenant for claim in claims], [claim.key_hash for claim in claims],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parent:
    id: int
    tenant: int
    state: int | None  # final state, None while live


async def lock_parents(connection: AnyConnection, ids: Sequence[int]) -> dict[int, Parent]:
    """Live parents are kept from ending until we commit; ended ones tell how. Unknown ones are absent."""
    wanted = sorted(set(ids))
    live = await connection.fetch("select id, tenant from queue where id = any($1) order by id for key share", wanted)
    found = {row["id"]: Parent(row["id"], row["tenant"], None) for row in live}
    missing = [number for number in wanted if number not in found]
    if missing:
        ended = await connection.fetch(
            "select task, tenant, state from attempts where task = any($1) and state > 0", missing
        )
        found |= {row["task"]: Parent(row["task"], row["tenant"], row["state"]) for row in ended}
    return found


async def take_ids(connection: Connection, amount: int) -> int:
    return int(await connection.fetchval("select take_task_ids($1)", amount))


async def make_partition(connection: Connection, first: int, size: int) -> None:
    await connection.execute("set lock_timeout = '2s'")
    await connection.execute("select make_partition($1, $2)", first, size)
