"""Artifacts as rows: the owner and the object key of stored bytes. An object exists before its row and after it.

Before an upload begins, its key is written into `loose_objects`; the transaction that inserts the artifact deletes it
there. A removal is the reverse. So `loose_objects` lists every object without an owner, whichever process dies, and
`claim_loose` finds it. A removal waits for transactions that name the artifact in a task (`lock_artifacts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter

import asyncpg

from rota.model.artifact import prefix_range
from rota.store.database import AnyConnection
from rota.store.statements import columns, sql

_TASK_LOCK = 7236005
_IN_USE_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class ArtifactRow:
    id: int
    sha256: bytes
    size_bytes: int
    name: str
    object_key: str
    created_by: str
    created_at: datetime
    kept_until: datetime | None  # None: forever


@dataclass(frozen=True, slots=True, kw_only=True)
class NewObject:
    """Bytes that are in the object store under a key that is still loose."""

    tenant: int
    sha256: bytes
    size_bytes: int
    object_key: str
    name: str  # empty: none was given
    created_by: str
    kept_for: timedelta | None  # None: forever
    storage_bytes: int | None  # the limit of the tenant's plan


class StorageFull(Exception):
    """The object exceeds the storage limit of the tenant's plan, of which `used_bytes` are in use."""

    def __init__(self, used_bytes: int) -> None:
        super().__init__(f"{used_bytes} bytes are stored")
        self.used_bytes = used_bytes


class UploadForgotten(Exception):
    """The key is no longer loose: the sweeper has removed it as an abandoned upload."""


class InUse(Exception):
    """A task that has not ended, or a schedule, names the artifact."""

    def __init__(self, user: str) -> None:
        super().__init__(f"{user} names it")
        self.user = user


# ---- reading: under row-level security, and naming the tenant again ------------------------------------------------


async def list_artifacts(connection: AnyConnection, tenant: int, *, before: int, limit: int) -> list[ArtifactRow]:
    rows = await connection.fetch(sql("artifacts/list_artifacts"), tenant, before, limit)
    return [ArtifactRow(*row) for row in rows]


async def find_artifacts(connection: AnyConnection, tenant: int, digits: str) -> list[ArtifactRow]:
    """The artifacts whose digest begins with the digits: none, one, or two if it is ambiguous."""
    low, high = prefix_range(digits)
    rows = await connection.fetch(sql("artifacts/find_artifacts"), tenant, low, high)
    return [ArtifactRow(*row) for row in rows]


async def find_many(connection: AnyConnection, tenant: int, prefixes: Sequence[str]) -> dict[str, list[ArtifactRow]]:
    """`find_artifacts` for many prefixes at once."""
    ranges = [prefix_range(digits) for digits in prefixes]
    rows = await connection.fetch(sql("artifacts/find_many"), tenant, list(prefixes), *columns(ranges, 0, 1))
    found: dict[str, list[ArtifactRow]] = {digits: [] for digits in prefixes}
    for row in rows:
        found[row["asked_digits"]].append(ArtifactRow(*list(row)[1:]))
    return found


async def storage_used(connection: AnyConnection, tenant: int) -> int:
    used = await connection.fetchval(sql("artifacts/storage_used"), tenant)
    return int(used)


async def lock_artifacts(connection: AnyConnection, tenant: int, digests: Sequence[bytes]) -> set[bytes]:
    """The digests that the tenant has. Until the transaction ends, none of them can be removed."""
    rows = await connection.fetch(sql("artifacts/lock_artifacts"), tenant, list(digests))
    return {row["sha256"] for row in rows}


async def lock_artifacts_of_many(
    connection: AnyConnection, named: Sequence[tuple[int, bytes]]
) -> dict[tuple[int, bytes], str]:
    """`lock_artifacts` for many tenants at once: (tenant, digest) → the name its owner gave it."""
    rows = await connection.fetch(sql("artifacts/lock_artifacts_of_many"), *columns(named, 0, 1))
    return {(row["tenant"], row["sha256"]): row["name"] for row in rows}


# ---- making --------------------------------------------------------------------------------------------------------


async def announce(connection: AnyConnection, object_key: str, *, within: timedelta) -> None:
    """Lists the key as loose before the first byte is written, so that an abandoned upload is found."""
    await connection.execute(sql("artifacts/announce"), object_key, within)


async def keep(connection: AnyConnection, new: NewObject) -> tuple[ArtifactRow, bool]:
    """Inserts the artifact in the caller's transaction. False: the tenant has these bytes; the object stays loose."""
    await _check_storage(connection, new, artifact=True)
    row = await connection.fetchrow(
        sql("artifacts/keep_artifact"),
        new.tenant,
        new.sha256,
        new.size_bytes,
        new.name,
        new.object_key,
        new.created_by,
        new.kept_for,
    )
    assert row is not None, "an insert that updates on conflict always returns its row"
    kept = ArtifactRow(*row)
    if kept.object_key == new.object_key:
        await take_up(connection, new.object_key)
        return kept, True
    return kept, False


async def _check_storage(connection: AnyConnection, new: NewObject, *, artifact: bool) -> None:
    """Serialises the uploads of a tenant with a limit, so that together they can't exceed it.

    An artifact that the tenant has is stored once; objects of attempts are stored each.
    """
    if new.storage_bytes is None:
        return
    used: int = await connection.fetchval(sql("artifacts/lock_storage_used"), new.tenant)
    if used + new.size_bytes <= new.storage_bytes:
        return
    if not artifact or await connection.fetchval(sql("artifacts/has_artifact"), new.tenant, new.sha256) is None:
        raise StorageFull(used)


async def take_up(connection: AnyConnection, object_key: str) -> None:
    """Takes the key off the list of loose objects: its owner is written in the same transaction."""
    if await connection.fetchval(sql("artifacts/take_up"), object_key) is None:
        raise UploadForgotten(object_key)


# ---- what attempts store -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holder:
    """The owner of an attempt that runs on the agent that asks."""

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


async def find_holder(
    connection: AnyConnection, *, task: int, attempt: int, boot: int, identity: int | None = None
) -> Holder | None:
    """None unless the attempt runs on the agent with this boot number, which no other agent knows.

    `identity`: of the agent's node; None: it has a worker's token.
    """
    row = await connection.fetchrow(sql("artifacts/find_holder"), task, attempt, boot, identity)
    return None if row is None else Holder(*row)


async def named_artifact(connection: AnyConnection, *, task: int, tenant: int, digest: bytes) -> ArtifactRow | None:
    """The tenant's artifact, if the task names it."""
    row = await connection.fetchrow(sql("artifacts/named_artifact"), task, tenant, digest)
    return None if row is None else ArtifactRow(*row)


async def lock_attempt_objects(connection: AnyConnection, task: int) -> None:
    """The first statement of a transaction that stores an object of an attempt, before it locks the tenant's storage.

    A repeated store may overtake the first one: each must see the object that it replaces.
    """
    await connection.execute(sql("artifacts/lock_attempt_objects"), _TASK_LOCK, task)


async def keep_for_attempt(
    connection: AnyConnection, new: NewObject, *, task: int, attempt: int, purpose: str, artifact: bool
) -> tuple[AttemptObject, str | None]:
    """Records an object of an attempt, in the caller's transaction. Returns also the key of the object it replaces.

    `lock_attempt_objects` comes first. The replaced object becomes loose. `artifact`: `keep` has made the bytes an
    artifact in the same transaction.
    """
    if not artifact:
        await _check_storage(connection, new, artifact=False)
        await take_up(connection, new.object_key)
    row = await connection.fetchrow(
        sql("artifacts/keep_attempt_object"),
        new.tenant,
        task,
        attempt,
        purpose,
        new.name,
        new.sha256,
        new.size_bytes,
        None if artifact else new.object_key,
    )
    assert row is not None
    return AttemptObject(*list(row)[:-1]), row["replaced_key"]


async def list_attempt_objects(
    connection: AnyConnection, *, task: int, tenant: int, purpose: str | None = None, limit: int = 1000
) -> list[AttemptObject]:
    """The objects of the task's attempts, newest first."""
    rows = await connection.fetch(sql("artifacts/list_attempt_objects"), task, tenant, purpose, limit)
    return [AttemptObject(*row) for row in rows]


async def task_outputs(
    connection: AnyConnection, attempts: Mapping[int, int], tenant: int
) -> dict[int, list[AttemptObject]]:
    """By task the outputs of its attempt, by name, without those whose artifact was removed."""
    rows = await connection.fetch(sql("artifacts/task_outputs"), [*attempts], [*attempts.values()], tenant)
    found: dict[int, list[AttemptObject]] = {}
    for task, *values in rows:
        found.setdefault(task, []).append(AttemptObject(*values))
    return found


async def find_attempt_object(
    connection: AnyConnection, *, task: int, tenant: int, number: int
) -> tuple[AttemptObject, str] | None:
    """The object and the key of its bytes."""
    row = await connection.fetchrow(sql("artifacts/find_attempt_object"), task, tenant, number)
    if row is None or row["found"] is None:
        return None
    return AttemptObject(*list(row)[:-1]), row["found"]


async def drop_older(
    connection: AnyConnection, *, task: int, purpose: str, keeping: int, damaged: Sequence[int] = ()
) -> list[str]:
    """Makes the damaged objects and all but the newest `keeping` loose. Returns their keys."""
    rows = await connection.fetch(sql("artifacts/drop_older_objects"), task, purpose, keeping, list(damaged))
    return [row["object_key"] for row in rows]


# ---- removing ------------------------------------------------------------------------------------------------------


async def remove_artifact(connection: AnyConnection, tenant: int, digest: bytes) -> str | None:
    """Deletes the row and makes its object loose. Returns the key; None: there is no such artifact. Raises `InUse`."""
    async with connection.transaction():
        locked = await connection.fetchval(sql("artifacts/lock_artifact"), tenant, digest)
        if locked is None:
            return None
        user = await _user_of(connection, tenant, digest)
        if user is not None:
            raise InUse(user)
        key: str = await connection.fetchval(sql("artifacts/remove_artifact"), tenant, digest)
        return key


async def _user_of(connection: AnyConnection, tenant: int, digest: bytes) -> str | None:
    """The task or schedule that names the artifact, for an error message."""
    task = await connection.fetchval(sql("artifacts/task_naming_artifact"), tenant, digest)
    if task is not None:
        return f"task {task}, which has not ended,"
    schedule = await connection.fetchval(sql("artifacts/schedule_naming_artifact"), tenant, digest)
    return None if schedule is None else f"schedule {schedule}"


async def expire_artifacts(connection: AnyConnection, *, at_most: int) -> int:
    """Removes expired artifacts and returns their number. One that a live task or a schedule names is kept longer."""
    async with connection.transaction():
        due: list[asyncpg.Record] = await connection.fetch(sql("artifacts/expired_artifacts"), at_most)
        gone = 0
        for row in sorted(due, key=itemgetter("tenant")):  # as the tenants' storage is locked elsewhere
            if await _user_of(connection, row["tenant"], row["sha256"]) is None:
                await connection.execute(sql("artifacts/remove_artifact"), row["tenant"], row["sha256"])
                gone += 1
            else:
                await connection.execute(
                    sql("artifacts/keep_longer"), row["tenant"], row["sha256"], timedelta(seconds=_IN_USE_SECONDS)
                )
        return gone


async def expire_attempt_objects(connection: AnyConnection, *, kept_for: timedelta | None, at_most: int) -> int:
    """Removes checkpoints of ended tasks, and objects older than `kept_for` if it is given. Returns the number."""
    return len(await connection.fetch(sql("artifacts/expire_attempt_objects"), kept_for, at_most))


async def claim_loose(connection: AnyConnection, *, at_most: int, for_seconds: float) -> list[str]:
    """Claims keys whose objects the caller deletes now. The claim lapses after `for_seconds`."""
    rows = await connection.fetch(sql("artifacts/claim_loose"), at_most, for_seconds)
    return [row["object_key"] for row in rows]


async def forget_loose(connection: AnyConnection, object_keys: Sequence[str]) -> None:
    """Takes keys off the list after their objects were deleted."""
    await connection.execute(sql("artifacts/forget_loose"), list(object_keys))
