"""A warm child for `async def` functions: many concurrent calls on one event loop. `main.py` runs all other functions.

Each call is prepared and answered in a thread of its own, exactly as in the ordinary child; only its coroutine runs on
the shared loop. `print` and everything else through `sys.stdout` and `sys.stderr` is told apart by context and travels
with the reply. Output past them (to descriptors, by started programs) can't be told apart and is dropped. A call that
changes the environment (`env`, secrets) can't share it: it is given back unbegun.
"""

from __future__ import annotations

import asyncio
import io
import os
import selectors
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from types import CoroutineType
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import msgspec

from rota.execute.child import context, main
from rota.execute.messages import calls, packets
from rota.execute.messages.output_tail import Tail
from rota.execute.messages.spec import decode_spec
from rota.model.attempt import Outcome

if TYPE_CHECKING:
    from typing_extensions import Buffer

MOST_HEAD_BYTES = 64 * 1024  # of each stream of one call: its beginning
MOST_TAIL_BYTES = 64 * 1024  # of both streams: its end
_MOST_CALLS_PER_GRANT = 256
_LEFT_SECONDS = 1.0
_STALL_NS = 50_000_000  # a shorter turn of the loop delays nobody


class RunningCall:
    """One running call."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._head: list[tuple[int, int, bytes]] = []
        self._tail = Tail()
        self._ends = [0, 0, 0]  # by stream
        self.task: asyncio.Task[object] | None = None
        self.is_cancelled = False
        self.is_async = False
        self.retry_in_ms: int | None = None
        self.stalled_before_ns = 0
        self.had_others = False  # other calls ran at the same time

    def say(self, stream: int, data: bytes) -> None:
        offset = self._ends[stream]
        self._ends[stream] += len(data)
        left = max(0, MOST_HEAD_BYTES - offset)
        if left and data:
            if self._tail.size:  # the other stream has begun its tail: what is written now comes after it
                self._tail.add(stream, offset, data[:left], keep=True)
            else:
                self._head.append((stream, offset, data[:left]))
        if len(data) > left:
            self._tail.add(stream, offset + left, data[left:])
            self._tail.cut(MOST_TAIL_BYTES)

    def output(self) -> tuple[tuple[int, int, bytes], ...]:
        tail = [(piece.stream, piece.offset, bytes(piece.data)) for piece in self._tail.take()]
        return (*self._head, *tail)


_current: ContextVar[RunningCall | None] = ContextVar("rota call", default=None)


class _Raw(io.RawIOBase):
    """Below sys.stdout or sys.stderr: output belongs to the call in whose context it is written."""

    def __init__(self, stream: int) -> None:
        self._stream = stream

    def write(self, data: Buffer, /) -> int:
        written = bytes(data)
        running = _current.get()
        if running is not None:
            running.say(self._stream, written)
        return len(written)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream


class _Turns(selectors.EpollSelector):
    """Adds up how long the loop was blocked by a call that does not await."""

    def __init__(self) -> None:
        super().__init__()
        self.stalled_ns = 0
        self._began_ns = 0  # start of this turn of the loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        took_ns = time.monotonic_ns() - self._began_ns
        if took_ns > _STALL_NS and self._began_ns:
            self.stalled_ns += took_ns
        ready = super().select(timeout)
        self._began_ns = time.monotonic_ns()
        return ready


class ConcurrentChild(main.Child):
    has_own_environment = False  # clients ask for the running call's server and key (`rota.running_task`)

    def serve(self) -> None:
        self._turns = _Turns()
        self._loop = asyncio.SelectorEventLoop(self._turns)
        threading.Thread(target=self._loop.run_forever, name="event loop", daemon=True).start()
        self._running: dict[int, RunningCall] = {}
        self._lock = threading.Lock()  # guards the running calls and the counts
        _quieten()
        pool = ThreadPoolExecutor(_MOST_CALLS_PER_GRANT, thread_name_prefix="call")
        while True:
            packet = packets.receive(self._channel)
            if packet is None or packet[0] == calls.LEAVE:
                break
            if packet[0].startswith(calls.CANCEL):
                self._cancel(int.from_bytes(packet[0][len(calls.CANCEL) :], "big"))
                continue
            call = main.decode_call(packet[0])
            running = RunningCall(call.number)
            with self._lock:  # not while leftovers of earlier calls are being ended
                self._running[call.number] = running
                running.had_others = len(self._running) > 1
                if len(self._running) == 2:  # with more, the earlier ones know already
                    for other in self._running.values():
                        other.had_others = True
            pool.submit(self._answer_call, call, running)
        pool.shutdown(wait=True)

    @property
    def _retry_in_ms(self) -> int | None:
        running = _current.get()
        return None if running is None else running.retry_in_ms

    @_retry_in_ms.setter
    def _retry_in_ms(self, retry_in_ms: int | None) -> None:
        """Each call's own request: they share this object."""
        running = _current.get()
        if running is not None:
            running.retry_in_ms = retry_in_ms

    def _answer_call(self, call: calls.Call, running: RunningCall) -> None:
        _current.set(running)
        with self._lock:
            is_stale = self._sources.have_changed(time.monotonic_ns())
        if is_stale:
            reply = calls.Reply(call.number, Outcome.REFUSED, 0, False, retire=True, stale=True)
        elif not _may_share(call):
            reply = calls.Reply(call.number, Outcome.REFUSED, 0, False, False, sequential=True)
        else:
            reply = self._answer_one(call, running)
        with self._lock:
            del self._running[call.number]
            if not self._running:
                if asyncio.all_tasks(self._loop):
                    asyncio.run_coroutine_threadsafe(_cancel_left(), self._loop).result()
                main.end_leftovers()
                if self._has_leftover_files(Outcome(reply.outcome)):
                    reply = msgspec.structs.replace(reply, retire=True)
        packets.send(self._channel, main.encode_reply(reply))

    def _answer_one(self, call: calls.Call, running: RunningCall) -> calls.Reply:
        context.enter_here(self._context_of(call))
        running.stalled_before_ns = self._turns.stalled_ns
        began = time.perf_counter_ns()
        outcome, result, failure = self._call(call)
        run_us = (time.perf_counter_ns() - began) // 1000
        with self._lock:
            self._count += 1
            worn = self._is_worn(call.memory_bytes, run_us)
        return calls.Reply(
            call.number,
            outcome,
            run_us,
            False,
            worn,
            result,
            failure,
            retry_in_ms=running.retry_in_ms,
            is_async=running.is_async,
            grown_bytes=self._usage.grown_bytes,
            stalled_us=(self._turns.stalled_ns - running.stalled_before_ns) // 1000 if running.had_others else 0,
            output=running.output(),
        )

    def _run(self, function: Callable[..., object], arguments: list[object], named: dict[str, object]) -> object:
        value = function(*arguments, **named)
        if not isinstance(value, CoroutineType):
            return value
        running = _current.get()
        assert running is not None
        running.is_async = True
        # The loop's task gets a copy of this thread's context, and with it the running call and the task's facts.
        return asyncio.run_coroutine_threadsafe(_awaited(value, running), self._loop).result()

    def _cancel(self, number: int) -> None:
        with self._lock:
            running = self._running.get(number)
            if running is not None:
                # Not the future that its thread waits for: that would end at once, the function would not.
                self._loop.call_soon_threadsafe(_cancel, running)


async def _awaited(coroutine: CoroutineType[Any, Any, object], running: RunningCall) -> object:
    running.task = asyncio.current_task()
    if running.is_cancelled and running.task is not None:
        running.task.cancel()
    return await coroutine


def _cancel(running: RunningCall) -> None:
    running.is_cancelled = True
    if running.task is not None:
        running.task.cancel()


def _may_share(call: calls.Call) -> bool:
    try:
        spec = decode_spec(call.spec)
        return not call.secrets and not spec.env and spec.scheduled is None  # variables belong to the whole process
    except ValueError:
        return True  # it will be refused later


def _quieten() -> None:
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)
    for stream, name in ((1, "stdout"), (2, "stderr")):
        raw = cast(BinaryIO, _Raw(stream))
        setattr(sys, name, io.TextIOWrapper(raw, encoding="utf-8", errors="replace", write_through=True))


async def _cancel_left() -> None:
    """A task that a function started and did not await would run on inside another call."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.wait(left, timeout=_LEFT_SECONDS)


if __name__ == "__main__":
    main.main(ConcurrentChild)
