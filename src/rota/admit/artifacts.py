"""Stores uploads and the objects of attempts: a stream of bytes is counted, hashed and kept, or leaves nothing behind.

The order makes it safe: announce the object's key, write the object, then make the row in one transaction. If a later
step fails, the object is deleted here or by `sweep` (see `store.artifacts`). Sizes and digests are those of the bytes
received, not the declared ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import uuid4

import structlog

from rota.model.artifact import Purpose, digits_of, identity
from rota.model.errors import Fault, Problem, conflict, invalid, not_found, unavailable
from rota.model.tenant import Caller
from rota.store import artifacts as rows
from rota.store.artifacts import ArtifactRow, AttemptObject, Holder, NewObject
from rota.store.database import AnyConnection, Database
from rota.store.objects import ObjectMissing, ObjectStore

log = structlog.get_logger()

UPLOAD_SECONDS = 6 * 3600.0  # the longest upload
_LOOSE_FOR = timedelta(seconds=UPLOAD_SECONDS + 3600)  # an hour later no upload can finish any more
_UPLOADS_AT_ONCE = 32  # on this node; each holds a few parts in memory
_UPLOADS_OF_TENANT = 8
UPLOAD_AGAIN = "remove the artifact and upload it again"
_CHECKPOINTS_KEPT = 2  # the last good one stays until the next one is stored
_SWEPT_A_ROUND = 200
_CLAIM_SECONDS = 600.0
_HASH_IN_THREAD_BYTES = 256 * 1024


class Damaged(Exception):
    """The object's bytes do not match its digest."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The digest and size that the sender declared. None: not declared."""

    sha256: bytes | None = None
    size_bytes: int | None = None


Note = Callable[[AnyConnection, ArtifactRow], Awaitable[None]]


class Artifacts:
    """One per server node. Without an object store, rows can be read but nothing can be stored."""

    def __init__(
        self,
        database: Database,
        objects: ObjectStore | None,
        *,
        prefix: str,
        limit_bytes: int,
        kept_for: timedelta | None,
    ) -> None:
        self._database = database
        self._objects = objects
        self._prefix = prefix  # of this cluster's objects; several clusters may share a bucket
        self._limit_bytes = limit_bytes
        self._kept_for = kept_for
        self._uploads: dict[int, int] = {}  # by tenant

    # ---- storing ---------------------------------------------------------------------------------------------------

    async def upload(
        self, caller: Caller, chunks: AsyncIterator[bytes], *, name: str, expected: Expected
    ) -> tuple[ArtifactRow, bool]:
        """The artifact, and whether it is new to the tenant."""
        owner = Holder(caller.tenant_id, caller.user, caller.plan.storage_bytes)
        new = await self._write(owner, chunks, name, expected)
        async with self._finishing(new) as connection:
            artifact, fresh = await rows.keep(connection, new)
        if not fresh:
            await self._discard([new.object_key])
        return artifact, fresh

    async def store(
        self,
        holder: Holder,
        chunks: AsyncIterator[bytes],
        *,
        task: int,
        attempt: int,
        purpose: Purpose,
        name: str,
        expected: Expected,
        damaged: Sequence[int] = (),
    ) -> AttemptObject:
        """Stores an object of an attempt that `find_holder` found. An output becomes the tenant's artifact.

        A new checkpoint removes those that the attempt found `damaged`, which were kept until now.
        """
        new = await self._write(holder, chunks, name, expected)
        loose: list[str] = []
        async with self._finishing(new) as connection:
            await rows.lock_attempt_objects(connection, task)
            if purpose is Purpose.OUTPUT:
                _, fresh = await rows.keep(connection, replace(new, name=name.rpartition("/")[2]))
                loose += [] if fresh else [new.object_key]
            stored, replaced = await rows.keep_for_attempt(
                connection, new, task=task, attempt=attempt, purpose=purpose, artifact=purpose is Purpose.OUTPUT
            )
            loose += [] if replaced is None else [replaced]
            if purpose is Purpose.CHECKPOINT:
                loose += await rows.drop_older(
                    connection, task=task, purpose=purpose, keeping=_CHECKPOINTS_KEPT, damaged=damaged
                )
        await self._discard(loose)
        return stored

    async def check_planned(self, caller: Caller, sizes: Mapping[bytes, int]) -> frozenset[bytes]:
        """Which of these digests the tenant has already. Refuses uploads of the others as `upload` would."""
        self._store()
        plan = caller.plan
        largest = self._largest_bytes(plan.storage_bytes)
        async with self._database.engine() as connection:
            found = await rows.find_many(connection, caller.tenant_id, [digest.hex() for digest in sizes])
            used = 0 if plan.storage_bytes is None else await rows.storage_used(connection, caller.tenant_id)
        stored = frozenset(digest for digest in sizes if found[digest.hex()])
        if any(size > largest for size in sizes.values()):
            raise _too_large(largest)
        new = sum(size for digest, size in sizes.items() if digest not in stored)
        if plan.storage_bytes is not None and used + new > plan.storage_bytes:
            raise _full(used, plan.storage_bytes)
        return stored

    async def _check_quota(self, tenant: int, storage_bytes: int | None, expected: Expected) -> None:
        """Refuses a declared size before the bytes come. The received size is checked again at the end."""
        largest = self._largest_bytes(storage_bytes)
        if expected.size_bytes is not None and expected.size_bytes > largest:
            raise _too_large(largest)
        if storage_bytes is None:
            return
        async with self._database.engine() as connection:
            used = await rows.storage_used(connection, tenant)
        if used + (expected.size_bytes or 0) > storage_bytes:
            raise _full(used, storage_bytes)

    def _largest_bytes(self, storage_bytes: int | None) -> int:
        """More can never be stored, whatever the tenant removes."""
        return self._limit_bytes if storage_bytes is None else min(self._limit_bytes, storage_bytes)

    async def _write(self, owner: Holder, chunks: AsyncIterator[bytes], name: str, expected: Expected) -> NewObject:
        await self._check_quota(owner.tenant, owner.storage_bytes, expected)
        objects = self._store()
        random_name = uuid4().hex
        key = f"{self._prefix}/{owner.tenant}/{random_name[:2]}/{random_name}"
        digest, size = hashlib.sha256(), 0
        largest = self._largest_bytes(owner.storage_bytes)

        async def counted() -> AsyncIterator[bytes]:
            nonlocal size
            async for chunk in chunks:
                size += len(chunk)
                if size > largest:
                    raise _too_large(largest)
                digest.update(chunk)
                yield chunk
            if expected.sha256 is not None and digest.digest() != expected.sha256:
                came = f"sha256 {expected.sha256.hex()} was announced, {digest.hexdigest()} came; send it again"
                raise invalid([Fault("", "checksum-mismatch", came)])

        with self._turn(owner.tenant):
            async with self._database.engine() as connection:
                await rows.announce(connection, key, within=_LOOSE_FOR)
            try:
                async with asyncio.timeout(UPLOAD_SECONDS):
                    await objects.put(key, counted())
            except TimeoutError:
                await self._discard([key])
                detail = f"an upload may take at most {UPLOAD_SECONDS / 3600:g} hours"
                raise Problem("request-timeout", status=408, title="Too slow", detail=detail) from None
            except Exception:
                await self._discard([key])
                raise
        return NewObject(
            tenant=owner.tenant,
            sha256=digest.digest(),
            size_bytes=size,
            object_key=key,
            name=name,
            created_by=owner.user,
            kept_for=self._kept_for,
            storage_bytes=owner.storage_bytes,
        )

    @contextlib.contextmanager
    def _turn(self, tenant: int) -> Iterator[None]:
        under_way = self._uploads.get(tenant, 0)
        if under_way >= _UPLOADS_OF_TENANT or sum(self._uploads.values()) >= _UPLOADS_AT_ONCE:
            raise unavailable("too many uploads are under way here; try again", retry_after_seconds=2.0)
        self._uploads[tenant] = under_way + 1
        try:
            yield
        finally:
            self._uploads[tenant] -= 1
            if not self._uploads[tenant]:
                del self._uploads[tenant]

    @contextlib.asynccontextmanager
    async def _finishing(self, new: NewObject) -> AsyncIterator[AnyConnection]:
        """The transaction that makes the row. If the connection is lost, the outcome is unknown: the object stays, and
        the sweeper removes it if there is no row.
        """
        try:
            async with self._database.engine() as connection:
                async with connection.transaction():
                    yield connection
        except rows.StorageFull as full:
            await self._discard([new.object_key])
            raise _full(full.used_bytes, new.storage_bytes or 0) from None
        except rows.UploadForgotten:
            await self._discard([new.object_key])
            raise conflict("upload-forgotten", "the upload took too long and was given up; send it again") from None

    # ---- reading ---------------------------------------------------------------------------------------------------

    async def find(self, tenant: int, reference: str) -> ArtifactRow:
        """Finds an artifact by its digest or a prefix. A malformed reference is not found, nor is another tenant's."""
        digits = digits_of(reference)
        if digits is None:
            raise not_found("artifact")
        async with self._database.tenant(tenant) as connection:
            found = await rows.find_artifacts(connection, tenant, digits)
        if not found:
            raise not_found("artifact")
        if len(found) > 1:
            raise conflict("ambiguous", f"several artifacts begin with {digits}; give more of its digits")
        return found[0]

    async def open(
        self, object_key: str, *, sha256: bytes, size_bytes: int, start: int, end: int, advice: str = UPLOAD_AGAIN
    ) -> AsyncIterator[bytes]:
        """The bytes from `start` to before `end`. Raises a Problem if the object is missing or has another size.

        A read of the whole object is checked: the last part is sent only if the digest is right, else `Damaged` is
        raised. `advice`: what the uploader can do about a damaged object; "": nobody uploaded it.
        """
        objects = self._store()
        try:
            facts = await objects.head(object_key)
        except ObjectMissing:
            log.error("artifacts.missing", object_key=object_key)
            raise _damaged("its object is missing", advice) from None
        if facts.size_bytes != size_bytes:
            log.error("artifacts.damaged", object_key=object_key, size_bytes=facts.size_bytes, expected=size_bytes)
            raise _damaged("its object has another size than it had", advice)
        stream = objects.read(object_key, start=start, end=end, size_bytes=size_bytes)
        if (start, end) != (0, size_bytes):
            return stream
        checked = _checked(stream, sha256)
        try:
            first = await anext(checked)
        except StopAsyncIteration:
            return checked  # the object is empty and its digest is right
        except Damaged:
            log.error("artifacts.damaged", object_key=object_key)
            raise _damaged("its object has other bytes than it had", advice) from None
        return _followed(first, checked)

    # ---- removing --------------------------------------------------------------------------------------------------

    async def remove(self, tenant: int, reference: str, *, note: Note | None = None) -> ArtifactRow:
        """`note` is called in the transaction, once the artifact is removed."""
        found = await self.find(tenant, reference)
        async with self._database.engine() as connection, connection.transaction():
            try:
                key = await rows.remove_artifact(connection, tenant, found.sha256)
            except rows.InUse as use:
                detail = f"{use.user} names it; cancel the task, or remove the schedule, first"
                raise conflict("artifact-in-use", detail) from None
            if key is not None and note is not None:
                await note(connection, found)
        if key is None:
            raise not_found("artifact")
        await self._discard([key])
        return found

    async def sweep(self) -> None:
        """One bounded round: removes expired artifacts and objects without a row."""
        objects = self._objects
        if objects is None:
            return
        async with self._database.engine() as connection:
            await rows.expire_artifacts(connection, at_most=_SWEPT_A_ROUND)
            await rows.expire_attempt_objects(connection, kept_for=self._kept_for, at_most=_SWEPT_A_ROUND)
            keys = await rows.claim_loose(connection, at_most=_SWEPT_A_ROUND, for_seconds=_CLAIM_SECONDS)
        for key in keys:
            await objects.delete(key)
        async with self._database.engine() as connection:
            await rows.forget_loose(connection, keys)

    async def _discard(self, object_keys: list[str]) -> None:
        """Deletes the objects now; if that fails, the sweeper does it later."""
        if not object_keys or self._objects is None:
            return
        try:
            for key in object_keys:
                await self._objects.delete(key)
            async with self._database.engine() as connection:
                await rows.forget_loose(connection, object_keys)
        except Problem as problem:
            log.info("artifacts.left_to_the_sweeper", objects=len(object_keys), error=problem.detail)

    def _store(self) -> ObjectStore:
        if self._objects is None:
            detail = "this server has no object store; its operator sets one with --objects or ROTA_OBJECTS"
            raise Problem("no-object-store", status=503, title="Nothing can be stored", detail=detail)
        return self._objects


async def hold_artifacts(connection: AnyConnection, tenant: int, digests: Collection[bytes]) -> None:
    """Keeps artifacts from being removed until the transaction ends. Refused if one was just removed."""
    gone = set(digests) - await rows.lock_artifacts(connection, tenant, sorted(digests))
    if gone:
        raise invalid([Fault("", "unknown-artifact", f"{identity(min(gone))} was removed meanwhile; upload it again")])


async def _checked(stream: AsyncIterator[bytes], sha256: bytes) -> AsyncIterator[bytes]:
    digest = hashlib.sha256()
    held: bytes | None = None
    async for part in stream:
        if held is not None:
            yield held
        held = part
        if len(part) >= _HASH_IN_THREAD_BYTES:
            await asyncio.to_thread(digest.update, part)
        else:
            digest.update(part)
    if digest.digest() != sha256:
        raise Damaged
    if held is not None:
        yield held


async def _followed(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for part in rest:
        yield part


def _too_large(limit_bytes: int) -> Problem:
    detail = f"an upload may have at most {limit_bytes:,} bytes"
    return Problem("payload-too-large", status=413, title="The upload is too large", detail=detail)


def _full(used_bytes: int, storage_bytes: int) -> Problem:
    detail = f"{used_bytes:,} bytes are stored and the plan keeps at most {storage_bytes:,}; remove artifacts first"
    extra: dict[str, object] = {"limit": "storage", "used_bytes": used_bytes, "storage_bytes": storage_bytes}
    return Problem("quota-exceeded", status=429, title="Limit exceeded", detail=detail, extra=extra)


def _damaged(why: str, advice: str) -> Problem:
    detail = f"{why}; {advice}" if advice else why
    return Problem("artifact-damaged", status=500, title="What is stored is damaged", detail=detail)
