"""Stores the outputs of a process after it has ended, before its folder is removed.

Only files that `find_outputs.find` accepted are opened and stored, through `Transfers`, a few at a time; the server
makes an artifact of each. All of them are stored, or the attempt fails with the name of the first that was not. Links
and special files that only a wildcard matches are left out, which the output of the task says.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from rota.execute.files import find_outputs
from rota.execute.files.find_outputs import BadOutput, Hide, Limits, Output
from rota.execute.files.transfer import Owner, TransferFailed, TransferRefused, Transfers
from rota.model.artifact import Purpose
from rota.wire import Failure

_AT_ONCE = 4
_MOST_TOLD = 20  # of what is left out


class NotCollected(Exception):
    """An output could not be stored; `failure` names it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Collector:
    """One for each agent. `limit_bytes` is for all files of one attempt together."""

    def __init__(self, *, transfers: Transfers, limit_bytes: int, most_files: int = find_outputs.MOST_OUTPUTS) -> None:
        self._transfers = transfers
        self._limits = Limits(files=most_files, size_bytes=limit_bytes)

    async def collect(
        self, owner: Owner, folder: str, patterns: Sequence[str], tell: Callable[[str], None], hide: Hide = str
    ) -> list[Output]:
        """Stores the files that match; `tell` is told what is left out. Raises `NotCollected`."""
        try:
            found = await asyncio.to_thread(find_outputs.find, folder, patterns, self._limits, hide)
        except BadOutput as bad:
            raise NotCollected(Failure("bad-output", str(bad))) from None
        outputs = found.outputs
        _tell_skipped(found.skipped, tell)
        turns = asyncio.Semaphore(_AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                for output in outputs:
                    group.create_task(self._store(owner, folder, output, turns), name=f"store {output.path}")
        except* NotCollected as group_of_failures:
            raise _first(group_of_failures) from None
        return outputs

    async def _store(self, owner: Owner, folder: str, output: Output, turns: asyncio.Semaphore) -> None:
        async with turns:
            try:
                descriptor = await asyncio.to_thread(find_outputs.open_output, folder, output)
            except BadOutput as bad:
                raise NotCollected(Failure("bad-output", str(bad))) from None
            try:
                await self._transfers.store(owner, purpose=Purpose.OUTPUT, name=output.path, descriptor=descriptor)
            except TransferRefused as refusal:
                raise NotCollected(Failure("bad-output", f"{output.path}: {refusal}")) from None
            except TransferFailed as failure:
                raise NotCollected(Failure("output-not-stored", f"{output.path}: {failure}")) from None
            finally:
                os.close(descriptor)


def _tell_skipped(skipped: Sequence[str], tell: Callable[[str], None]) -> None:
    for sentence in skipped[:_MOST_TOLD]:
        tell(f"not kept: {sentence}")
    if len(skipped) > _MOST_TOLD:
        tell(f"not kept: {len(skipped) - _MOST_TOLD} more that are no plain files")


def _first(failures: BaseExceptionGroup[NotCollected]) -> NotCollected:
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
