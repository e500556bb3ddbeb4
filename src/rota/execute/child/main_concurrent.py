"""A warm child for `async def` functions: many calls at once, all on one event loop. For all else there is `child.py`.

Each call is prepared and answered in a thread of its own, exactly as the ordinary child does it; only its coroutine is
run by the shared loop. `print` and all that goes through `sys.stdout` and `sys.stderr` is kept apart by context and
travels with the reply. What is written past them (to descriptors, by programs that are started) can't be told apart
and is dropped. A call that changes the environment (`env`, secrets) can't share it: it is given back unbegun.
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
from rota.execute.messages.spec import decode_spec
from rota.model.attempt import Outcome

if TYPE_CHECKING:
    from typing_extensions import Buffer

MOST_OUTPUT_BYTES = 128 * 1024  # of one call
_MOST_VOICES = 256
_LEFT_SECONDS = 1.0
_STALL_NS = 50_000_000  # a shorter turn of the loop keeps nobody waiting


class Voice:
    """One call, while it is under way."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.output: list[tuple[int, bytes]] = []
        self.output_bytes = 0
        self.task: asyncio.Task[object] | None = None
        self.is_cancelled = False
        self.is_async = False
        self.retry_in_ms: int | None = None
        self.stalled_before_ns = 0
        self.had_company = False  # others were there while it was

    def say(self, stream: int, data: bytes) -> None:
        room = MOST_OUTPUT_BYTES - self.output_bytes
        self.output_bytes += len(data)
        if room > 0:
            self.output.append((stream, data[:room]))


_voice: ContextVar[Voice | None] = ContextVar("rota voice", default=None)


class _Raw(io.RawIOBase):
    """Below sys.stdout or sys.stderr: what is written belongs to the call in whose context it is."""

    def __init__(self, stream: int) -> None:
        self._stream = stream

    def write(self, data: Buffer, /) -> int:
        written = bytes(data)
        voice = _voice.get()
        if voice is not None:
            voice.say(self._stream, written)
        return len(written)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream


class _Turns(selectors.EpollSelector):
    """Adds up for how long the loop was kept from its other calls, by one that does not await."""

    def __init__(self) -> None:
        super().__init__()
        self.stalled_ns = 0
        self._began_ns = 0  # this turn of the loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        took_ns = time.monotonic_ns() - self._began_ns
        if took_ns > _STALL_NS and self._began_ns:
            self.stalled_ns += took_ns
        ready = super().select(timeout)
        self._began_ns = time.monotonic_ns()
        return ready


class ChorusChild(main.Child):
    def serve(self) -> None:
        self._turns = _Turns()
        self._loop = asyncio.SelectorEventLoop(self._turns)
        threading.Thread(target=self._loop.run_forever, name="chorus", daemon=True).start()
        self._voices: dict[int, Voice] = {}
        self._turn = threading.Lock()  # over the voices and the counts
        _quieten()
        pool = ThreadPoolExecutor(_MOST_VOICES, thread_name_prefix="voice")
        while True:
            packet = packets.receive(self._channel)
            if packet is None or packet[0] == calls.LEAVE:
                break
            if packet[0].startswith(calls.CANCEL):
                self._cancel(int.from_bytes(packet[0][len(calls.CANCEL) :], "big"))
                continue
            call = main.decode_call(packet[0])
            voice = Voice(call.number)
            with self._turn:  # not while what earlier calls left behind is being ended
                self._voices[call.number] = voice
                voice.had_company = len(self._voices) > 1
                if len(self._voices) == 2:  # with more, those who were there know it already
                    for other in self._voices.values():
                        other.had_company = True
            pool.submit(self._sing, call, voice)
        pool.shutdown(wait=True)

    @property
    def _retry_in_ms(self) -> int | None:
        voice = _voice.get()
        return None if voice is None else voice.retry_in_ms

    @_retry_in_ms.setter
    def _retry_in_ms(self, wish: int | None) -> None:
        """Each call's own wish: they share this object."""
        voice = _voice.get()
        if voice is not None:
            voice.retry_in_ms = wish

    def _sing(self, call: calls.Call, voice: Voice) -> None:
        _voice.set(voice)
        with self._turn:
            is_stale = self._sources.have_changed(time.monotonic_ns())
        if is_stale:
            reply = calls.Reply(call.number, Outcome.REFUSED, 0, False, retire=True, stale=True)
        elif not _may_share(call):
            reply = calls.Reply(call.number, Outcome.REFUSED, 0, False, False, solo=True)
        else:
            reply = self._answer_one(call, voice)
        with self._turn:
            del self._voices[call.number]
            if not self._voices:
                if asyncio.all_tasks(self._loop):
                    asyncio.run_coroutine_threadsafe(_cancel_left(), self._loop).result()
                main.end_leftovers()
                if self._is_littered(Outcome(reply.outcome)):
                    reply = msgspec.structs.replace(reply, retire=True)
        packets.send(self._channel, main.encode_reply(reply))

    def _answer_one(self, call: calls.Call, voice: Voice) -> calls.Reply:
        context.enter_here(self._context_of(call))
        voice.stalled_before_ns = self._turns.stalled_ns
        began = time.perf_counter_ns()
        outcome, result, failure = self._call(call)
        run_us = (time.perf_counter_ns() - began) // 1000
        with self._turn:
            self._count += 1
            worn = self._is_worn(call.memory_bytes, run_us)
        return calls.Reply(
            call.number, outcome, run_us, False, worn, result, failure, retry_in_ms=voice.retry_in_ms,
            is_async=voice.is_async, grown_bytes=self._scales.grown_bytes,
            stalled_us=(self._turns.stalled_ns - voice.stalled_before_ns) // 1000 if voice.had_company else 0,
            output=tuple(voice.output), output_dropped_bytes=max(0, voice.output_bytes - MOST_OUTPUT_BYTES),
        )  # fmt: skip

    def _run(self, function: Callable[..., object], arguments: list[object], named: dict[str, object]) -> object:
        value = function(*arguments, **named)
        if not isinstance(value, CoroutineType):
            return value
        voice = _voice.get()
        assert voice is not None
        voice.is_async = True
        # The loop's task gets a copy of this thread's context, and with it the voice and the task's own facts.
        return asyncio.run_coroutine_threadsafe(_sung(value, voice), self._loop).result()

    def _cancel(self, number: int) -> None:
        with self._turn:
            voice = self._voices.get(number)
            if voice is not None:
                # Not the future that its thread waits for: that would be over at once, and the function would not.
                self._loop.call_soon_threadsafe(_cancel, voice)


async def _sung(coroutine: CoroutineType[Any, Any, object], voice: Voice) -> object:
    voice.task = asyncio.current_task()
    if voice.is_cancelled and voice.task is not None:
        voice.task.cancel()
    return await coroutine


def _cancel(voice: Voice) -> None:
    voice.is_cancelled = True
    if voice.task is not None:
        voice.task.cancel()


def _may_share(call: calls.Call) -> bool:
    try:
        spec = decode_spec(call.spec)
        return not call.secrets and not spec.env and spec.scheduled is None  # variables are the process's
    except ValueError:
        return True  # it will be refused in due form


def _quieten() -> None:
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)
    for stream, name in ((1, "stdout"), (2, "stderr")):
        raw = cast(BinaryIO, _Raw(stream))
        setattr(sys, name, io.TextIOWrapper(raw, encoding="utf-8", errors="replace", write_through=True))


async def _cancel_left() -> None:
    """A task that a function started and did not await would run on inside somebody else's call."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.wait(left, timeout=_LEFT_SECONDS)


if __name__ == "__main__":
    main.main(ChorusChild)
