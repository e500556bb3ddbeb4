"""Looks a few times a second whether a running process wants its checkpoint folder stored now.

A task asks by making the file `.save` in the folder. It is gone when the checkpoint is durable; if it could not be
stored, the file is called `.save-failed` instead, and the task's output says why. A finished stage is told of in the
file; it becomes an event before the file goes. One save of an attempt at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rota.execute.attempts.attempt import Attempt
from rota.execute.files import checkpoint_wish
from rota.execute.files.checkpoint import Checkpoints
from rota.execute.files.checkpoint_wish import SaveRequest

LOOK_SECONDS = 0.25


class CheckpointWatch:
    def __init__(
        self,
        *,
        checkpoints: Checkpoints,
        folders: Callable[[], list[tuple[Attempt, str]]],
        tell: Callable[[Attempt, str], None],
    ) -> None:
        self._checkpoints = checkpoints
        self._folders = folders
        self._tell = tell
        self._under_way: dict[Attempt, asyncio.Task[None]] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        folders = [(attempt, folder) for attempt, folder in self._folders() if attempt not in self._under_way]
        if not folders:
            return
        save_requests = await asyncio.to_thread(lambda: [checkpoint_wish.find(folder) for _, folder in folders])
        alive = {attempt for attempt, _ in self._folders()}
        for (attempt, folder), save_request in zip(folders, save_requests, strict=True):
            if save_request is not None and attempt in alive:
                self._under_way[attempt] = asyncio.create_task(
                    self._obey(attempt, folder, save_request), name="save a checkpoint"
                )

    async def end(self, attempt: Attempt) -> None:
        """Its process is over: nothing of this attempt is looked at once this returns."""
        saving = self._under_way.get(attempt)
        if saving is not None:
            saving.cancel()
            await asyncio.wait({saving})

    async def _obey(self, attempt: Attempt, folder: str, save_request: SaveRequest) -> None:
        try:
            is_stored = await self._checkpoints.save(attempt, folder, lambda sentence: self._tell(attempt, sentence))
            if save_request.stage is not None:
                await self._checkpoints.tell_stage(
                    attempt, save_request.stage, lambda sentence: self._tell(attempt, sentence)
                )
            await asyncio.to_thread(checkpoint_wish.answer, folder, save_request, is_stored=is_stored)
        finally:
            del self._under_way[attempt]
