"""Artifacts as rows: whose bytes are where. The object comes before its row and goes after it.

Before an upload begins its key is written into `loose_objects`; the transaction that makes the artifact takes it out
again. A removal is the reverse. So an object without an owner is always listed there, whoever died when, and
`claim_loose` finds it. Removing waits for whoever locked the artifact to name it in a task (`lock_artifacts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg

from rota.model.artifact import prefix_range
from rota.store.database import AnyConnection
from rota.store.statements import sql

_STORAGE_LOCK = 7236004
_TASK_LOCK = 7236005
_IN_USE_SECONDS = 3600
_COLUMNS = "id, sha256, size_bytes, name, object_key, created_by, created_at, kept_until"


@dataclass(frozen=True, slots=True)
class ArtifactRow:
    id: int
    sha256: bytes
    size_bytes: int
    name: str
    object_key: str
    created_by: str
    created_at: datetime
    kept_until: datetime | None  # None: for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class NewObject:
    """Bytes that are in the store already, under a key that is still loose."""

    tenant: int
    sha256: bytes
    size_bytes: int
    object_key: str
    name: str  # empty: none was given
    created_by: str
    kept_for: timedelta | None  # None: for ever
    storage_bytes: int | None  # what the tenant's plan keeps at most


class StorageFull(Exception):
    """It would be more than the tenant's plan keeps; `used_bytes` are there now."""

    def __init__(self, used_bytes: int) -> None:
        super().__init__(f"{used_bytes} bytes are stored")
        self.used_bytes = used_bytes


class UploadForgotten(Exception):
    """The key is no longer loose: the sweeper took it for one that nobody would finish."""


class InUse(Exception):
    """A task that has not ended, or a schedule, names the artifact."""

    def __init__(self, user: str) -> None:
        super().__init__(f"{user} names it")
        self.user = user


# ---- reading: under row-level security, and naming the tenant again ------------------------------------------------


async def list_artifacts(connection: AnyConnection, tenant: int, *, before: int, limit: int) -> list[ArtifactRow]:
    rows = await connection.fetch(
        f"select {_COLUMNS} from artifacts where tenant = $1 and id < $2 order by id desc limit $3",
        tenant, before, limit,
    )  # fmt: skip
    return [ArtifactRow(*row) for row in rows]


async def find_artifacts(connection: AnyConnection, tenant: int, digits: str) -> list[ArtifactRow]:
    """Those whose digest begins with the digits: none, the one, or two to say that there are several."""
    low, high = prefix_range(digits)
    rows = await connection.fetch(
        f"select {_COLUMNS} from artifacts where tenant = $1 and sha256 between $2 and $3 order by sha256 limit 2",
        tenant, low, high,
    )  # fmt: skip
    return [ArtifactRow(*row) for row in rows]


async def find_many(connection: AnyConnection, tenant: int, prefixes: Sequence[str]) -> dict[str, list[ArtifactRow]]:
    """The same for many at once, by the digits asked for."""
    ranges = [prefix_range(digits) for digits in prefixes]
    rows = await connection.fetch(
        sql("find_artifacts"), tenant, list(prefixes), [low for low, _ in ranges], [high for _, high in ranges]
    )
    found: dict[str, list[ArtifactRow]] = {digits: [] for digits in prefixes}
    for row in rows:
        found[row["asked_digits"]].append(ArtifactRow(*list(row)[1:]))
    return found


async def storage_used(connection: AnyConnection, tenant: int) -> int:
    used = await connection.fetchval(
        """select coalesce((select sum(size_bytes) from artifacts where tenant = $1), 0)
            + coalesce((select sum(size_bytes) from attempt_objects
                where tenant = $1 and object_key is not null), 0)""",
        tenant,
    )
    return int(used)


async def lock_artifacts(connection: AnyConnection, tenant: int, digests: Sequence[bytes]) -> set[bytes]:
    """Which of these the tenant has. Until the transaction ends none of them can be removed."""
    rows = await connection.fetch(
        "select sha256 from artifacts where tenant = $1 and sha256 = any($2) order by sha256 for key share",
        tenant, list(digests),
    )  # fmt: skip
    return {row["sha256"] for row in rows}


async def lock_artifacts_of_many(
    connection: AnyConnection, named: Sequence[tuple[int, bytes]]
) -> dict[tuple[int, bytes], str]:
    """The same for many tenants at once: (tenant, digest) → what its owner called it."""
    rows = await connection.fetch(
        """select artifacts.tenant, artifacts.sha256, artifacts.name from artifacts
            join unnest($1::integer[], $2::bytea[]) as named (tenant, sha256) using (tenant, sha256)
            order by 1, 2 for key share of artifacts""",
        [tenant for tenant, _ in named], [digest for _, digest in named],
    )  # fmt: skip
    return {(row["tenant"], row["sha256"]): row["name"] for row in rows}


# ---- making --------------------------------------------------------------------------------------------------------


async def announce(connection: AnyConnection, object_key: str, *, within: timedelta) -> None:
    """Before the first byte is written: whatever becomes of the upload, its object will be found."""
    await connection.execute(
        "insert into loose_objects (object_key, remove_at) values ($1, now() + $2)", object_key, within
    )


async def keep(connection: AnyConnection, new: NewObject) -> tuple[ArtifactRow, bool]:
    """Makes the artifact, in the caller's transaction. False: the tenant had these bytes, the object stays loose."""
    await _make_room(connection, new)
    row = await connection.fetchrow(
        sql("keep_artifact"), new.tenant, new.sha256, new.size_bytes, new.name, new.object_key, new.created_by,
        new.kept_for,
    )  # fmt: skip
    assert row is not None, "an insert that updates on conflict always returns its row"
    kept = ArtifactRow(*row)
    if kept.object_key == new.object_key:
        await take_up(connection, new.object_key)
        return kept, True
    return kept, False


async def _make_room(connection: AnyConnection, new: NewObject) -> None:
    """Uploads of a tenant with a limit are let in one by one, so that together they can't pass it."""
    if new.storage_bytes is None:
        return
    await connection.execute("select pg_advisory_xact_lock($1, $2)", _STORAGE_LOCK, new.tenant)
    used = await storage_used(connection, new.tenant)
    known = await connection.fetchval(
        "select 1 from artifacts where tenant = $1 and sha256 = $2", new.tenant, new.sha256
    )
    if known is None and used + new.size_bytes > new.storage_bytes:
        raise StorageFull(used)


async def take_up(connection: AnyConnection, object_key: str) -> None:
    """The object has an owner now, in the same transaction."""
    if await connection.fetchval("delete from loose_objects where object_key = $1 returning 1", object_key) is None:
        raise UploadForgotten(object_key)


# ---- what attempts store -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holder:
    """An attempt that is running right now, on the very agent that asks."""

    tenant: int
    user: str
    storage_bytes: int | None


@dataclass(frozen=True, slots=True)
class AttemptObject:
    id: int
    attempt: int
    purpose: str
    name: str
    sha256: bytes
    size_bytes: int
    object_key: str | None  # None: the artifact's
    created_at: datetime


_ATTEMPT_COLUMNS = "id, attempt, purpose, name, sha256, size_bytes, object_key, created_at"


async def find_holder(connection: AnyConnection, *, task: int, attempt: int, boot: int) -> Holder | None:
    """None unless this attempt runs on the agent with this boot number, which nobody else knows."""
    row = await connection.fetchrow(sql("find_holder"), task, attempt, boot)
    return None if row is None else Holder(*row)


async def named_artifact(connection: AnyConnection, *, task: int, tenant: int, digest: bytes) -> ArtifactRow | None:
    """The tenant's artifact, if the task names it."""
    columns = ", ".join(f"artifacts.{column}" for column in _COLUMNS.split(", "))
    row = await connection.fetchrow(
        f"""select {columns} from tasks join artifacts on artifacts.tenant = tasks.tenant
            where tasks.id = $1 and tasks.tenant = $2 and tasks.artifacts @> array[$3::bytea]
                and artifacts.sha256 = $3""",
        task, tenant, digest,
    )  # fmt: skip
    return None if row is None else ArtifactRow(*row)


async def keep_for_attempt(
    connection: AnyConnection, new: NewObject, *, task: int, attempt: int, purpose: str, artifact: bool
) -> tuple[AttemptObject, str | None]:
    """Notes what an attempt stored, in a transaction of the caller's. What had that name before becomes loose: its key.

    `artifact`: the bytes are the tenant's artifact already, made by `keep` in the same transaction.
    """
    # Two stores under one name, one of them a repetition that overtook the other: each must see what it replaces.
    await connection.execute("select pg_advisory_xact_lock($1, ($2::bigint % 2147483647)::integer)", _TASK_LOCK, task)
    if not artifact:
        await _make_room(connection, new)
        await take_up(connection, new.object_key)
    row = await connection.fetchrow(
        sql("keep_attempt_object"), new.tenant, task, attempt, purpose, new.name, new.sha256, new.size_bytes,
        None if artifact else new.object_key,
    )  # fmt: skip
    assert row is not None
    return AttemptObject(*list(row)[:-1]), row["replaced_key"]


async def list_attempt_objects(
    connection: AnyConnection, *, task: int, tenant: int, purpose: str | None = None, limit: int = 1000
) -> list[AttemptObject]:
    """What the task's attempts stored, newest first."""
    rows = await connection.fetch(
        f"""select {_ATTEMPT_COLUMNS} from attempt_objects
            where task = $1 and tenant = $2 and ($3::text is null or purpose = $3)
            order by created_at desc, id desc limit $4""",
        task, tenant, purpose, limit,
    )  # fmt: skip
    return [AttemptObject(*row) for row in rows]


async def task_outputs(connection: AnyConnection, *, task: int, tenant: int, attempt: int) -> list[AttemptObject]:
    """What the attempt left, by name; those whose artifact was removed since are not among them."""
    columns = ", ".join(f"stored.{column}" for column in _ATTEMPT_COLUMNS.split(", "))
    rows = await connection.fetch(
        f"""select {columns} from attempt_objects stored
            join artifacts on artifacts.tenant = stored.tenant and artifacts.sha256 = stored.sha256
            where stored.task = $1 and stored.tenant = $2 and stored.attempt = $3 and stored.purpose = 'output'
            order by stored.name""",
        task, tenant, attempt,
    )  # fmt: skip
    return [AttemptObject(*row) for row in rows]


async def find_attempt_object(
    connection: AnyConnection, *, task: int, tenant: int, number: int
) -> tuple[AttemptObject, str] | None:
    """The object and the key its bytes are under."""
    columns = ", ".join(f"stored.{column}" for column in _ATTEMPT_COLUMNS.split(", "))
    row = await connection.fetchrow(
        f"""select {columns}, coalesce(stored.object_key, artifacts.object_key) as found
            from attempt_objects stored
            left join artifacts on artifacts.tenant = stored.tenant and artifacts.sha256 = stored.sha256
            where stored.task = $1 and stored.tenant = $2 and stored.id = $3""",
        task, tenant, number,
    )  # fmt: skip
    if row is None or row["found"] is None:
        return None
    return AttemptObject(*list(row)[:-1]), row["found"]


async def drop_older(
    connection: AnyConnection, *, task: int, purpose: str, keeping: int, damaged: Sequence[int] = ()
) -> list[str]:
    """Makes all but the newest few loose, and those of the task that are damaged; their keys."""
    rows = await connection.fetch(sql("drop_older_objects"), task, purpose, keeping, list(damaged))
    return [row["object_key"] for row in rows]


# ---- removing ------------------------------------------------------------------------------------------------------


async def remove_artifact(connection: AnyConnection, tenant: int, digest: bytes) -> str | None:
    """Takes the row away and makes its object loose; the key. None: there is none. Raises `InUse`."""
    async with connection.transaction():
        locked = await connection.fetchval(
            "select 1 from artifacts where tenant = $1 and sha256 = $2 for update", tenant, digest
        )
        if locked is None:
            return None
        user = await _user_of(connection, tenant, digest)
        if user is not None:
            raise InUse(user)
        key: str = await connection.fetchval(sql("remove_artifact"), tenant, digest)
        return key


async def _user_of(connection: AnyConnection, tenant: int, digest: bytes) -> str | None:
    """Who still needs it, in words."""
    task = await connection.fetchval(sql("task_naming_artifact"), tenant, digest)
    if task is not None:
        return f"task {task}, which has not ended,"
    schedule = await connection.fetchval(sql("schedule_naming_artifact"), tenant, digest)
    return None if schedule is None else f"schedule {schedule}"


async def expire_artifacts(connection: AnyConnection, *, at_most: int) -> int:
    """Removes what is kept no longer, unless a live task or a schedule names it: that is looked at again later.

    How many went.
    """
    async with connection.transaction():
        due: list[asyncpg.Record] = await connection.fetch(
            """select tenant, sha256 from artifacts where kept_until < now()
                order by kept_until limit $1 for update skip locked""",
            at_most,
        )
        gone = 0
        for row in due:
            if await _user_of(connection, row["tenant"], row["sha256"]) is None:
                await connection.execute(sql("remove_artifact"), row["tenant"], row["sha256"])
                gone += 1
            else:
                await connection.execute(
                    "update artifacts set kept_until = now() + $3 where tenant = $1 and sha256 = $2",
                    row["tenant"], row["sha256"], timedelta(seconds=_IN_USE_SECONDS),
                )  # fmt: skip
        return gone


async def expire_attempt_objects(connection: AnyConnection, *, kept_for: timedelta | None, at_most: int) -> int:
    """Checkpoints of ended tasks, and what attempts stored longer ago than is kept (None: for ever). How many went."""
    return len(await connection.fetch(sql("expire_attempt_objects"), kept_for, at_most))


async def claim_loose(connection: AnyConnection, *, at_most: int, for_seconds: float) -> list[str]:
    """Keys whose objects are to be deleted now, by whoever claimed them; others leave them alone for a while."""
    rows = await connection.fetch(
        """update loose_objects set remove_at = now() + make_interval(secs => $2) where object_key in (
            select object_key from loose_objects where remove_at <= now()
            order by remove_at limit $1 for update skip locked)
            returning object_key""",
        at_most, for_seconds,
    )  # fmt: skip
    return [row["object_key"] for row in rows]


async def forget_loose(connection: AnyConnection, object_keys: Sequence[str]) -> None:
    """Their objects are gone."""
    await connection.execute("delete from loose_objects where object_key = any($1)", list(object_keys))
