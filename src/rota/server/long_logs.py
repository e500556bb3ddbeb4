"""Moves long output from the database into the object store, in the background.

Output is durable in the database first, and stays there while the object store is unreachable. Of a running attempt
only whole segments are moved, the rest after its end; its tail, which newer chunks replace, last and when complete.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

import structlog

from rota.model.errors import Problem
from rota.store import long_logs
from rota.store.artifacts import UploadForgotten, announce, forget_loose
from rota.store.database import Database
from rota.store.log_segments import SEGMENT_BYTES, Segments, encode
from rota.store.logs import Attempt
from rota.store.retention import PUT_OFF

log = structlog.get_logger()

ROUND_SECONDS = 2.0
_RUNNING_SECONDS = 5.0  # between two checks of a running attempt
_GAP_SECONDS = 60.0
_AWAY_SECONDS = 30.0
_CLAIM_SECONDS = 600.0
_NOW_SECONDS = 8.0  # an agent waits meanwhile
_AT_ONCE = 4
_LOOSE_FOR = timedelta(minutes=30)  # far longer than the write of a segment takes


class LogKeeper:
    """One in each server node; they may work concurrently."""

    def __init__(self, database: Database, segments: Segments, *, prefix: str, long_bytes: int) -> None:
        self._database = database
        self._segments = segments
        self._prefix = prefix  # of this cluster's objects: several clusters may share a bucket
        self._long_bytes = long_bytes

    async def run(self) -> None:
        while True:
            await asyncio.sleep(ROUND_SECONDS)
            try:
                while await self.move_some():
                    pass
            except Problem as problem:
                log.debug("logs.put_off", error=problem.detail)

    async def move_some(self) -> int:
        """One bounded round. Returns the number of checked attempts."""
        async with self._database.engine() as connection:
            claimed = await long_logs.claim_long(connection, at_most=_AT_ONCE, for_seconds=_CLAIM_SECONDS)
        for attempt in claimed:
            try:
                await self._move(attempt)
            except (Problem, *PUT_OFF):
                # Most likely the object store, which logs it itself. The output stays in the database.
                await self._later(attempt, _AWAY_SECONDS)
        return len(claimed)

    async def move_now(self, attempt: Attempt) -> int:
        """Moves whole segments of an attempt that writes much. Returns how much of its head stays in rows."""
        await self._later(attempt, _CLAIM_SECONDS)
        try:
            async with asyncio.timeout(_NOW_SECONDS):
                await self._move(attempt)
        except (Problem, TimeoutError, *PUT_OFF):
            await self._later(attempt, _AWAY_SECONDS)
        async with self._database.engine() as connection:
            facts = await long_logs.read_long(connection, attempt)
        return 0 if facts is None else facts.head_bytes

    async def _move(self, attempt: Attempt) -> None:
        while True:
            async with self._database.engine() as connection:
                facts = await long_logs.read_long(connection, attempt)
            if facts is None or self._segments.objects is None:
                return await self._forget(attempt)  # deleted with its task, or there is no object store
            waiting_bytes = facts.head_bytes + (0 if facts.running else facts.tail_bytes)
            if facts.total_bytes < self._long_bytes or not waiting_bytes:
                return await (self._later(attempt, _RUNNING_SECONDS) if facts.running else self._forget(attempt))
            if facts.running and waiting_bytes < SEGMENT_BYTES:
                return await self._later(attempt, _RUNNING_SECONDS)
            if not await self._move_segment(attempt, facts):
                await self._forget(attempt, older_than_hours=long_logs.FORGOTTEN_HOURS)
                return await self._later(attempt, _GAP_SECONDS)

    async def _move_segment(self, attempt: Attempt, facts: long_logs.LongLog) -> bool:
        """False: a chunk is still missing."""
        async with self._database.engine() as connection:
            if facts.head_bytes:
                chunks = await long_logs.next_chunks(connection, attempt, after=facts.last_seq)
            elif facts.kept_bytes is not None and facts.total_bytes >= facts.kept_bytes:
                chunks = await long_logs.next_tail_chunks(connection, attempt, after=facts.last_seq)
            else:
                return False
            if not chunks:
                return False
            key = f"{self._prefix}/{facts.tenant}/logs/{uuid4().hex}"
            await announce(connection, key, within=_LOOSE_FOR)
        body = await asyncio.to_thread(encode, chunks)
        try:
            await self._segments.put(key, body)
            async with self._database.engine() as connection:
                await long_logs.keep_segment(connection, attempt, chunks, object_key=key, stored_bytes=len(body))
        except (long_logs.AlreadyMoved, UploadForgotten):
            await self._discard(key)
        return True

    async def _discard(self, key: str) -> None:
        """Deletes an object, and then its row in `loose_objects`: the sweeper tries again until it is gone."""
        assert self._segments.objects is not None
        await self._segments.objects.delete(key)
        async with self._database.engine() as connection:
            await forget_loose(connection, [key])

    async def _forget(self, attempt: Attempt, *, older_than_hours: int = 0) -> None:
        async with self._database.engine() as connection:
            await long_logs.forget_long(connection, attempt, older_than_hours=older_than_hours)

    async def _later(self, attempt: Attempt, seconds: float) -> None:
        async with self._database.engine() as connection:
            await long_logs.postpone(connection, attempt, seconds=seconds)
