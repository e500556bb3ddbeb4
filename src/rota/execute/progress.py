"""Polls the progress of running attempts twice a second and passes on what changed.

However often a task reports, the agent reads at its own pace, and only attempts that have run for a while. Files are
read in a thread. No task needs this to run or to end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rota.execute.attempts.attempt import Attempt, Key
from rota.execute.functions.runner import FunctionRunner
from rota.execute.messages.masking import mask_cut_text, mask_text, patterns_of
from rota.execute.processes import task_files
from rota.execute.processes.runner import ProcessRunner
from rota.model.progress import MOST_CHARACTERS, Progress
from rota.wire import ReportedProgress

POLL_SECONDS = 0.5
_AGAIN_SECONDS = 30.0  # unchanged progress is sent again: a frame may have been lost with its connection


class ProgressWatch:
    def __init__(
        self,
        *,
        functions: FunctionRunner,
        processes: ProcessRunner,
        report: Callable[[list[ReportedProgress]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._functions = functions
        self._processes = processes
        self._report = report
        self._clock = clock
        self._sent: dict[Key, tuple[Progress, float]] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.poll()

    async def poll(self) -> None:
        reported = {
            attempt.key: _masked(attempt, progress)
            for attempt, progress in self._functions.progress()
            if progress is not None
        }
        folders = self._processes.folders()
        if folders:
            reported |= await asyncio.to_thread(_read_all, folders)
        self._sent = {key: sent for key, sent in self._sent.items() if key in reported}
        now = self._clock()
        news = []
        for key, progress in reported.items():
            sent = self._sent.get(key)
            if sent is None or sent[0] != progress or now - sent[1] >= _AGAIN_SECONDS:
                self._sent[key] = (progress, now)
                news.append(ReportedProgress(*key, progress))
        if news:
            self._report(news)


def _masked(attempt: Attempt, progress: Progress) -> Progress:
    """Progress without the values of the attempt's secrets."""
    secrets = attempt.run.secrets
    if not secrets:
        return progress
    mask = mask_cut_text if len(progress.message) >= MOST_CHARACTERS else mask_text
    return Progress(progress.fraction, mask(progress.message, patterns_of(secrets)))


def _read_all(folders: list[tuple[Attempt, str]]) -> dict[Key, Progress]:
    by_attempt = {}
    for attempt, folder in folders:
        progress = task_files.read_progress(folder)
        if progress is not None:
            by_attempt[attempt.key] = _masked(attempt, progress)
    return by_attempt
