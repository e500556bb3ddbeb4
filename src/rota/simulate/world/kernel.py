"""Virtual time, simulated processes, and the log of a seed.

One heap of events; ties are broken by the order of insertion, so a seed always gives the same run. Processes run
ordinary coroutines, production ones among them, stepped by `Fiber`: whatever such a coroutine awaits is a `Call`, never
a future of a real event loop. A process can be paused and can die at every call.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any

MOST_EVENTS = 200_000  # a seed with more events is stuck in a loop


class Kernel:
    """The clock and the queue of events."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.events = 0
        self.random = Random(seed)
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._made = 0

    def at(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        self._made += 1
        heapq.heappush(self._heap, (time if time > self.now else self.now, self._made, action, arguments))

    def after(self, seconds: float, action: Callable[..., None], *arguments: Any) -> None:
        self._made += 1
        heapq.heappush(self._heap, (self.now + seconds, self._made, action, arguments))

    def run(self, until: float, enough: Callable[[], bool] | None = None) -> None:
        """Runs events until that time, or until `enough` is true; it is called after every event."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= until:
            self.now, _, action, arguments = pop(heap)
            self.events += 1
            action(*arguments)
            if enough is not None and enough():
                return
            if self.events >= MOST_EVENTS:
                raise AssertionError("the world does not come to rest")
        self.now = max(self.now, until)


class Call:
    """An operation that a coroutine awaits. `begin` must later `resume` or `fail` the fiber."""

    risk = 0.0  # above zero: a message leaves the process here, and the nemesis may strike just before

    def __await__(self) -> Generator[Call, Any, Any]:
        return (yield self)

    def begin(self, fiber: Fiber, ticket: int) -> None:
        raise NotImplementedError


class Fiber:
    """One coroutine of a process. A ticket allows one resumption; later ones are ignored."""

    __slots__ = ("_coroutine", "_running", "_ticket", "ended", "process")

    def __init__(self, process: Process, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.process = process
        self.ended = False
        self._coroutine = coroutine
        self._ticket = 0
        self._running = False

    def resume(self, ticket: int, value: Any = None) -> None:
        self._step(ticket, value, None)

    def fail(self, ticket: int, error: Exception) -> None:
        self._step(ticket, None, error)

    def stop(self) -> None:
        """Ends it for good; its `finally` blocks run, as in a cancelled task."""
        if not self.ended:
            self.ended = True
            self._ticket += 1
            if not self._running:
                self._coroutine.close()

    def _step(self, ticket: int, value: Any, error: Exception | None) -> None:
        if self.ended or ticket != self._ticket:
            return
        process = self.process
        kernel = process.kernel
        if process.paused_until > kernel.now:
            kernel.at(process.paused_until, self._step, ticket, value, error)
            return
        self._ticket += 1
        self._running = True
        try:
            call = self._coroutine.send(value) if error is None else self._coroutine.throw(error)
        except StopIteration:
            self._finish()
            return
        except BaseException:
            self._finish()
            raise
        self._running = False
        if ticket + 1 != self._ticket:  # stopped from within
            self._coroutine.close()
            return
        if call.risk and process.struck(call.risk):
            kernel.at(process.paused_until, self._begin_late, call, self._ticket)
            return
        call.begin(self, self._ticket)

    def _begin_late(self, call: Call, ticket: int) -> None:
        """Begins the call after a pause at the boundary, unless the process died there."""
        if not self.ended and self.process.alive:
            call.begin(self, ticket)

    def _finish(self) -> None:
        self._running = False
        self.ended = True
        self.process.fibers.pop(self, None)


class Process:
    """A process with its own clock. A dead one is never used again."""

    def __init__(self, kernel: Kernel, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.alive = True
        self.paused_until = 0.0
        self.rate = 1.0  # of its monotonic clock
        self.offset = 1000.0
        self.wall_offset = 0.0
        self.fibers: dict[Fiber, None] = {}
        self.strike: Callable[[Process, float], None] | None = None  # the nemesis, called at command boundaries

    def clock(self) -> float:
        return self.offset + self.kernel.now * self.rate

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> Fiber:
        fiber = Fiber(self, coroutine)
        if not self.alive:
            fiber.stop()
            return fiber
        self.fibers[fiber] = None
        self.kernel.at(self.kernel.now, fiber.resume, 0)
        return fiber

    def post(self, action: Callable[..., None], *arguments: Any) -> None:
        """Runs the action now, or when the process is no longer paused; never in a dead process."""
        if not self.alive:
            return
        if self.paused_until > self.kernel.now:
            self.kernel.at(self.paused_until, self.post, action, *arguments)
            return
        action(*arguments)

    def struck(self, risk: float) -> bool:
        """Whether the nemesis paused or killed this process at this boundary."""
        if self.strike is not None:
            self.strike(self, risk)
        return not self.alive or self.paused_until > self.kernel.now

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.kernel.now + seconds)

    def die(self) -> None:
        self.alive = False
        fibers, self.fibers = list(self.fibers), {}
        for fiber in fibers:
            fiber.stop()

    def sleep(self, seconds: float) -> Sleep:
        return Sleep(seconds)


class Sleep(Call):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def begin(self, fiber: Fiber, ticket: int) -> None:
        fiber.process.kernel.after(max(0.0, self._seconds) / fiber.process.rate, fiber.resume, ticket)


class Signal:
    """Like `asyncio.Event`, for fibers. `limited` waits at most that many seconds and returns whether it was set."""

    def __init__(self) -> None:
        self._set = False
        self._waiting: list[tuple[Fiber, int]] = []

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, []
        for fiber, ticket in waiting:
            fiber.process.kernel.after(0.0, fiber.resume, ticket, True)

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    async def wait(self) -> bool:
        if not self._set:
            await _Waiting(self._waiting, None)
        return True

    async def limited(self, seconds: float) -> bool:
        return self._set or bool(await _Waiting(self._waiting, seconds))


class _Waiting(Call):
    def __init__(self, waiting: list[tuple[Fiber, int]], seconds: float | None) -> None:
        self._waiting = waiting
        self._seconds = seconds

    def begin(self, fiber: Fiber, ticket: int) -> None:
        self._waiting.append((fiber, ticket))
        if self._seconds is not None:
            fiber.process.kernel.after(max(0.0, self._seconds) / fiber.process.rate, fiber.resume, ticket, False)


class Story:
    """The log of a seed: a fingerprint always, and readable lines when the seed is replayed."""

    def __init__(self, now: Callable[[], float], *, keep: bool) -> None:
        self._now = now
        self._keep = keep
        self.lines: list[str] = []
        self.fingerprint = 0

    def tell(self, actor: str, text: str) -> None:
        line = f"{self._now():10.4f}  {actor:<12}{text}"
        self.fingerprint = zlib.crc32(line.encode(), self.fingerprint)
        if self._keep:
            self.lines.append(line)
