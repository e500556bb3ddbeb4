"""One process attempt between the order to the keeper and the keeper's report: its output, its cap, how it ended.

`runner.py` makes one for each attempt that it launches, and hears of the end through `over`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rota.execute.attempts.attempt import Attempt
from rota.execute.keeper_link import End, Ended, Lost, Spawn
from rota.execute.logs.capture import Capture
from rota.execute.logs.pipes import OutputPipes
from rota.execute.messages.masking import masks_of
from rota.execute.messages.spec import log_limit_of
from rota.execute.processes.ends import container_finish, finish_of, may_be_the_disks_fault
from rota.model.attempt import Outcome

if TYPE_CHECKING:
    from rota.execute.processes.runner import ProcessRunner

_STDERR = 2


class ProcessUnit:
    """One process attempt between the order to the keeper and the keeper's report."""

    def __init__(
        self,
        runner: ProcessRunner,
        attempt: Attempt,
        pipes: OutputPipes,
        order: Spawn,
        outputs: list[str],
        own_socket: str,
    ) -> None:
        self._runner = runner
        self._pipes = pipes
        limit_bytes = log_limit_of(attempt.run.spec, runner.log_limit_bytes)
        self._capture = Capture(*attempt.key, limit_bytes, masks_of(attempt.run.secrets))
        self._cap: asyncio.TimerHandle | None = None
        self._is_over = False
        self._began_at = 0.0
        self.attempt = attempt
        self.folder = order.folder
        self.own_socket = own_socket  # the folder of its server socket; "": it has none
        self.image = order.container_spec.image if order.container_spec is not None else ""  # "": not a container
        self._capture.error_tail = b"" if self.image else None
        self._program = "its interpreter" if order.script is not None else order.program
        self.outputs = outputs  # patterns
        self.has_ended = False  # by itself or by us: it had begun and was not lost
        self.is_grown = False
        self.number = 0
        for sentence in attempt.notes:
            self.tell(sentence)

    def tell(self, sentence: str) -> None:
        """Adds a sentence for its owner to its output."""
        self._runner.flow.add(self._capture, _STDERR, f"rota: {sentence}\n".encode(errors="replace"))

    def begin(self, number: int, began_at: float) -> None:
        self.number = number
        self._began_at = began_at
        self.recap()

    def recap(self) -> None:
        if self._is_over or self.attempt.stopping is not None or self.attempt.frozen_at is not None:
            return
        if self._cap is not None:
            self._cap.cancel()
            self._cap = None
        if self.attempt.run.cap_ms > 0:
            ends_at = self._began_at + self.attempt.frozen_seconds + self.attempt.run.cap_ms / 1000
            self._cap = self._runner.loop.call_at(ends_at, self._cap_reached)

    def freeze(self) -> None:
        if self._cap is not None and self.attempt.stopping is None:  # else it is about to be killed, frozen or not
            self._cap.cancel()
            self._cap = None

    def watch(self) -> None:
        if not self._is_over:
            self.is_grown = True
            self._pipes.watch(self._capture)

    def stop(self) -> None:
        if self._cap is not None:
            self._cap.cancel()
        if not self._is_over:
            self._runner.link.terminate(self.number)
            kill, grace_seconds = self._runner.link.kill, self._runner.kill_grace_seconds
            self._cap = self._runner.loop.call_later(grace_seconds, kill, self.number)

    def unit_over(self, end: End) -> None:
        self._is_over = True
        self.has_ended = isinstance(end, Ended)
        self.is_grown = False
        if self._cap is not None:
            self._cap.cancel()
        self._pipes.unwatch()
        self._pipes.drain(self._capture)
        self._pipes.close()
        folder_left = not isinstance(end, Lost) and end.folder_left
        run_us = int((self._runner.loop.time() - self._began_at) * 1e6)
        finish = finish_of(self.attempt, end, self._capture, lost_run_us=run_us)
        if self.image:
            finish = container_finish(finish, image=self.image, program=self._program)
            if finish.outcome is Outcome.REFUSED and self._runner.images is not None:
                self._runner.images.forget(self.image)
        if may_be_the_disks_fault(end, finish):  # before its folder is removed
            full_disk = self._runner.full_disk
            if self.has_ended:
                finish = full_disk.judge(self.attempt, finish)
            else:
                finish = full_disk.blame(self.attempt, finish, innocent=True)
        self._runner.over(self, finish, folder_left=folder_left)

    def _cap_reached(self) -> None:
        self._runner.guard()
        if self.attempt.stopping is None and self.attempt.frozen_at is None:
            self.attempt.stopping = Outcome.TIMEOUT
            self.stop()
