"""Tasks that were submitted together: whoever asks how one of them ended learns it of its neighbours too.

So `[handle.result() for handle in handles]` and `asyncio.gather(*(handle.result() for handle in handles))` take a few
requests, not one for each task. What to ask is decided in `calls/batch_waiting.py`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence

import msgspec

from rota.client._async.sender import AsyncSender
from rota.client.calls import task_calls
from rota.client.calls.batch_waiting import Neighbours, SharedWait
from rota.client.errors import NotFound, WaitTimeout
from rota.client.transport.awaiting import Signal, after_the_others
from rota.model.answers.tasks import EndedTask, TaskDocument

SLACK_SECONDS = 0.25  # how much longer than its timeout a caller waits for another's wait, before it asks itself


class AsyncBatch:
    """The tasks of one submission, in order. A handle knows its batch and its position there."""

    def __init__(self, client: AsyncSender, ids: Sequence[int]) -> None:
        self._outcomes = AsyncEnds(client, ids, documents=False)
        self._documents = AsyncEnds(client, ids, documents=True)

    async def outcome(self, position: int, timeout: float | None) -> EndedTask:
        return msgspec.json.decode(await self._outcomes.end_of(position, timeout), type=EndedTask, strict=False)

    async def document(self, position: int, timeout: float | None) -> TaskDocument:
        return msgspec.json.decode(await self._documents.end_of(position, timeout), type=TaskDocument, strict=False)


class AsyncEnds:
    """How the tasks of a batch ended, as the server wrote it. Threads may share it; none sends under the lock."""

    def __init__(self, client: AsyncSender, ids: Sequence[int], *, documents: bool) -> None:
        self._client = client
        self._with_documents = documents
        self._neighbours = Neighbours(ids)
        self._lock = threading.Lock()
        self._signals: dict[int, Signal] = {}  # by the identity of the wait

    async def end_of(self, position: int, timeout: float | None) -> bytes:
        until = math.inf if timeout is None else time.monotonic() + timeout
        task_id = self._neighbours.ids[position]
        with self._lock:
            found = self._neighbours.kept(task_id)
            if found is not None:
                return found
            self._neighbours.want(task_id)
        try:
            await after_the_others()
            return await self._end_of(position, task_id, until, timeout)
        finally:
            with self._lock:
                self._neighbours.unwant(task_id)

    async def _end_of(self, position: int, task_id: int, until: float, timeout: float | None) -> bytes:
        while True:
            with self._lock:
                found = self._neighbours.kept(task_id)
                if found is not None:
                    return found
                wait = self._neighbours.asked(task_id)
                # Another's request may last longer than this caller may wait.
                is_own = wait is None or time.monotonic() >= until + SLACK_SECONDS
                if wait is None or is_own:
                    wait = self._neighbours.begin(position)
                    left = until - time.monotonic()
                    wait.until = time.monotonic() + self._seconds(left)
                    self._signals[id(wait)] = Signal()
                signal = self._signals[id(wait)]
            if is_own:
                found = (await self._ask(wait, signal)).get(task_id)
                if found is not None:
                    return found
            else:
                patience = until + SLACK_SECONDS
                await signal.wait(math.inf if wait.until <= patience else patience - time.monotonic())
                if wait.error is not None:
                    raise wait.error
            if wait.answered and wait.until >= until and time.monotonic() >= until:
                with self._lock:
                    found = self._neighbours.kept(task_id)
                if found is not None:
                    return found
                raise WaitTimeout(f"task {task_id} has not ended after {timeout:g} s", task_ids=(task_id,))

    async def _ask(self, wait: SharedWait, signal: Signal) -> dict[int, bytes]:
        """Sends the wait, keeps the answers, and tells all who wait for them."""
        seconds = wait.until - time.monotonic()
        call = task_calls.wait_for_any(wait.ids, wait.also, seconds, documents=self._with_documents)
        try:
            answer = await self._client.perform(call)
            with self._lock:
                wait.answered = True
                return self._neighbours.keep(wait, answer.documents or answer.ended)
        except NotFound as error:
            if len(wait.ids) == 1:
                wait.error = error
                raise
            with self._lock:
                self._neighbours.ask_alone()
            return {}
        except Exception as error:
            wait.error = error
            raise
        finally:
            with self._lock:
                self._neighbours.close(wait)
                del self._signals[id(wait)]
            signal.give()

    def _seconds(self, left: float) -> float:
        return max(0.0, min(left, self._client.longest_wait_seconds))
