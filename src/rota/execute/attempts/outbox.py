"""Frames for the server: results until they are settled, runs given back, a heartbeat when it is due. No I/O.

Everything that gathers during a send leaves in one frame; there is no other batching. Results stay here after sending
and are sent again on the next connection until the server says they are durable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rota import wire
from rota.execute.attempts.attempt import Key

_RESULT_BYTES = 200  # a result without payload, roughly


class Outbox:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.unacknowledged: dict[Key, wire.Result] = {}
        self.wake = asyncio.Event()
        self.settled_all = asyncio.Event()
        self.settled_all.set()
        self._unsent: list[wire.Result] = []
        self._recalled: list[Key] = []
        self._recall_number = 0  # of a recall that the server waits for; 0: none
        self._heartbeat_due = False

    def add(self, result: wire.Result) -> None:
        self.unacknowledged[(result.task, result.attempt)] = result
        self._unsent.append(result)
        self.settled_all.clear()
        self.wake.set()

    def give_back(self, keys: list[Key]) -> None:
        if keys:
            self._recalled += keys
            self.wake.set()

    def confirm_recall(self, number: int) -> None:
        """The recall with this number was carried out, with everything given back before."""
        self._recall_number = number
        self.wake.set()

    def beat(self) -> None:
        self._heartbeat_due = True
        self.wake.set()

    def settle(self, keys: list[Key]) -> None:
        for key in keys:
            self.unacknowledged.pop(key, None)
        if not self.unacknowledged:
            self.settled_all.set()

    def forget_all(self) -> None:
        self.unacknowledged.clear()
        self.settled_all.set()
        self.start_over()

    def start_over(self) -> None:
        """A new connection: every unsettled result is sent again. Runs given back are no longer in the inventory."""
        self._unsent = list(self.unacknowledged.values())
        self._recalled = []
        self._recall_number = 0
        self._heartbeat_due = False
        if self._unsent:
            self.wake.set()

    def take_heartbeat(self) -> bool:
        due, self._heartbeat_due = self._heartbeat_due, False
        return due

    def take_frame(self) -> wire.Recalled | wire.Results | None:
        """The next frame to send, None when nothing is left."""
        if self._recalled or self._recall_number:
            recalled, self._recalled = self._recalled, []
            number, self._recall_number = self._recall_number, 0
            return wire.Recalled(attempts=recalled, number=number)
        if not self._unsent:
            return None
        size = 0
        count = 0
        for result in self._unsent:
            size += _RESULT_BYTES + len(result.result or b"") + sum(len(chunk.data) for chunk in result.log)
            count += 1
            if size >= wire.FRAME_TARGET_BYTES:
                break
        batch, self._unsent = self._unsent[:count], self._unsent[count:]
        return wire.Results(results=batch, sent=self._clock())
