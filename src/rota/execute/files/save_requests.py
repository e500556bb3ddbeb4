"""Looks a few times a second whether a running process wants its checkpoint folder stored now.

A task asks by making the file `.save` in the folder. It is gone when the checkpoint is durable; if it could not be
stored, the file is called `.save-failed` instead, and the task's output says why. A finished stage is told of in the
file; it becomes an event before the file goes. One save of an attempt at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rota.execute.attempts.attempt import Held
from rota.execute.files import checkpoint_wish
from rota.execute.files.checkpoint import Checkpoints
from rota.execute.files.checkpoint_wish import Wish

LOOK_SECONDS = 0.25


class CheckpointWatch:
    def __init__(
        self,
        *,
        checkpoints: Checkpoints,
        folders: Callable[[], list[tuple[Held, str]]],
        tell: Callable[[Held, str], None],
    ) -> None:
        self._checkpoints = checkpoints
        self._folders = folders
        self._tell = tell
        self._under_way: dict[Held, asyncio.Task[None]] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        folders = [(held, folder) for held, folder in self._folders() if held not in self._under_way]
        if not folders:
            return
        wishes = await asyncio.to_thread(lambda: [checkpoint_wish.find(folder) for _, folder in folders])
        alive = {held for held, _ in self._folders()}
        for (held, folder), wish in zip(folders, wishes, strict=True):
            if wish is not None and held in alive:
                self._under_way[held] = asyncio.create_task(self._obey(held, folder, wish), name="save a checkpoint")

    async def end(self, held: Held) -> None:
        """Its process is over: nothing of this attempt is looked at once this returns."""
        saving = self._under_way.get(held)
        if saving is not None:
            saving.cancel()
            await asyncio.wait({saving})

    async def _obey(self, held: Held, folder: str, wish: Wish) -> None:
        try:
            is_stored = await self._checkpoints.save(held, folder, lambda sentence: self._tell(held, sentence))
            if wish.stage is not None:
                await self._checkpoints.tell_stage(held, wish.stage, lambda sentence: self._tell(held, sentence))
            await asyncio.to_thread(checkpoint_wish.answer, folder, wish, is_stored=is_stored)
        finally:
            del self._under_way[held]
