"""A task's checkpoint folder: stored after an attempt and restored before the next one.

It is stored when an attempt ended without success, and during the run whenever the task makes the file `.save` in it,
which is removed once the checkpoint is durable. A new checkpoint never replaces the last good one before it is whole:
the server keeps the last two, and for a damaged one the older one is used. Every problem is written into the task's own
output; it never fails an attempt that can go on without a checkpoint.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import tempfile
from collections.abc import Callable
from typing import BinaryIO, ParamSpec, TypeVar, cast

import structlog

from rota.execute.attempts.attempt import Attempt
from rota.execute.files import checkpoint_tar
from rota.execute.files.checkpoint_tar import BadCheckpoint
from rota.execute.files.transfer import DAMAGED, Owner, TransferFailed, TransferRefused, Transfers
from rota.execute.linux import work_folder
from rota.model.answers.workers import StoredObject
from rota.model.artifact import Purpose
from rota.model.stage import StageDone
from rota.model.units import bytes_text

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")

log = structlog.get_logger()

DEFAULT_LIMIT_BYTES = 1024**3

Tell = Callable[[str], None]


class Checkpoints:
    """One for each agent. `tell` takes one sentence for the task's owner."""

    def __init__(self, *, transfers: Transfers, scratch: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._transfers = transfers
        self._scratch = scratch  # a private folder for the tar while it is made
        self._limit_bytes = limit_bytes
        self._known: dict[Attempt, str] = {}  # the digest of the stored checkpoint of a running attempt

    def has_kept(self, attempt: Attempt) -> bool:
        """Whether it began with a checkpoint or has stored one; an empty folder was then emptied by the task."""
        return attempt in self._known

    def forget(self, attempt: Attempt) -> None:
        self._known.pop(attempt, None)

    async def restore(self, attempt: Attempt, folder: str, owner: int | None, tell: Tell) -> None:
        """Fills the attempt's checkpoint folder with the newest undamaged one. Raises `TransferFailed`, `OSError`."""
        inner = work_folder.checkpoint_of(folder)
        asker = owner_of(attempt)
        try:
            stored = await self._transfers.stored(asker, Purpose.CHECKPOINT)
        except TransferRefused as refusal:
            log.info("checkpoint.none", task=attempt.run.task, why=str(refusal))
            return
        for checkpoint in stored:
            try:
                await self._restore_one(asker, checkpoint, inner, owner)
            except (BadCheckpoint, TransferRefused) as damage:
                tell(f"the checkpoint of attempt {checkpoint.attempt} is damaged: {damage}")
                _note(attempt, checkpoint, damage)
                await in_thread(_make_anew, inner, owner)
                continue
            self._known[attempt] = checkpoint.sha256
            if checkpoint is not stored[0]:
                tell(f"it continues from an older checkpoint, of attempt {checkpoint.attempt}")
            return
        if stored:
            tell("no undamaged checkpoint is left; it starts from the beginning")

    async def _restore_one(self, asker: Owner, checkpoint: StoredObject, inner: str, owner: int | None) -> None:
        with tempfile.TemporaryFile(dir=self._scratch) as file:
            await self._transfers.fetch_object(asker, checkpoint, file.fileno())
            file.seek(0)
            # Whatever is in the folder gives way to the checkpoint.
            await in_thread(_make_anew, inner, owner)
            # No more can come out of a plain tar than is in it.
            await in_thread(
                checkpoint_tar.unpack, cast(BinaryIO, file), inner, owner, limit_bytes=checkpoint.size_bytes
            )

    async def save(self, attempt: Attempt, folder: str, tell: Tell) -> bool:
        """True when the folder's content is durable. A folder that was and is empty needs no checkpoint."""
        try:
            with tempfile.TemporaryFile(dir=self._scratch) as file:
                packed, digest = await in_thread(
                    _pack, work_folder.checkpoint_of(folder), cast(BinaryIO, file), self._limit_bytes
                )
                if packed.left_out:
                    tell(f"{packed.left_out} links or other things that are no plain files are not in the checkpoint")
                if digest == self._known.get(attempt) or (packed.entries == 0 and not self.has_kept(attempt)):
                    return True
                await self._store(attempt, file.fileno())
                self._known[attempt] = digest
                return True
        except (BadCheckpoint, TransferRefused, TransferFailed) as error:
            tell(f"the checkpoint was not stored: {_readable(error, self._limit_bytes)}")
        except OSError as error:
            tell(f"the checkpoint was not stored: {error.strerror}")
        return False

    async def tell_stage(self, attempt: Attempt, stage: StageDone, tell: Tell) -> None:
        """Reports a finished stage as an event. If that fails, the task goes on all the same."""
        try:
            await self._transfers.tell_stage(owner_of(attempt), stage)
        except (TransferRefused, TransferFailed) as error:
            tell(f"no event tells that stage {stage.name} is done: {error}")

    # ---- functions -------------------------------------------------------------------------------------------------

    async def save_value(self, attempt: Attempt, descriptor: int | None) -> str:
        """Stores the value that a function passed as its checkpoint. The problem in one sentence; "": it is durable."""
        try:
            if descriptor is None:
                raise BadCheckpoint("no value was passed")
            if os.fstat(descriptor).st_size > self._limit_bytes:
                raise BadCheckpoint(f"it is larger than {self._limit_bytes} bytes")
            await self._store(attempt, descriptor)
        except (BadCheckpoint, TransferRefused, TransferFailed, OSError) as error:
            return f"the checkpoint was not stored: {_readable(error, self._limit_bytes)}"
        return ""

    async def load_value(self, attempt: Attempt) -> tuple[str, int | None]:
        """The newest undamaged value as a descriptor for the caller to close (None: there is none), or the problem."""
        try:
            for checkpoint in await self._transfers.stored(owner_of(attempt), Purpose.CHECKPOINT):
                memory = os.memfd_create("rota-checkpoint", os.MFD_CLOEXEC)
                try:
                    await self._transfers.fetch_object(owner_of(attempt), checkpoint, memory)
                except TransferRefused as damage:
                    os.close(memory)
                    _note(attempt, checkpoint, damage)
                    log.warning(
                        "checkpoint.damaged", task=attempt.run.task, attempt=checkpoint.attempt, why=str(damage)
                    )
                    continue
                except BaseException:
                    os.close(memory)
                    raise
                return "", memory
        except (TransferRefused, TransferFailed, OSError) as error:
            return f"the checkpoint can't be fetched: {error}", None
        return "", None

    async def _store(self, attempt: Attempt, descriptor: int) -> None:
        """Stores it under a new name: a broken transfer leaves the previous checkpoint as it is."""
        name = f"{attempt.run.attempt}-{secrets.token_hex(6)}"
        await self._transfers.store(
            owner_of(attempt), purpose=Purpose.CHECKPOINT, name=name, descriptor=descriptor, damaged=attempt.damaged
        )
        attempt.damaged = []


def _note(attempt: Attempt, checkpoint: StoredObject, damage: BadCheckpoint | TransferRefused) -> None:
    """It is removed only when the next one is stored: it may be readable again tomorrow."""
    if checkpoint.id not in attempt.damaged and (isinstance(damage, BadCheckpoint) or damage.slug == DAMAGED):
        attempt.damaged.append(checkpoint.id)


def owner_of(attempt: Attempt) -> Owner:
    return Owner(attempt.run.task, attempt.run.attempt, attempt.run.tenant)


def _readable(error: Exception, limit_bytes: int) -> str:
    return str(error).replace(f"{limit_bytes} bytes", bytes_text(limit_bytes))


def _pack(folder: str, file: BinaryIO, limit_bytes: int) -> tuple[checkpoint_tar.Packed, str]:
    packed = checkpoint_tar.pack(folder, file, limit_bytes=limit_bytes)
    file.flush()
    file.seek(0)
    return packed, hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _make_anew(inner: str, owner: int | None) -> None:
    work_folder.remove(inner)
    work_folder.add_checkpoint(os.path.dirname(inner), owner)


async def in_thread(call: Callable[Arguments, Value], *arguments: Arguments.args, **named: Arguments.kwargs) -> Value:
    """Runs file work in a thread. A cancelled caller waits for it: no file may appear after its folder is removed."""
    running = asyncio.ensure_future(asyncio.to_thread(call, *arguments, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise
