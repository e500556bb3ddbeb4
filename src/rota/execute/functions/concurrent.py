"""Runs `async def` functions many at a time in one child, on one grant: the agent's side of `chorus_child.py`.

Whether a function is async is learned from its first run, in an ordinary child. From then on its calls go here: up to
32 for every CPU of the grant share a child, each with its own result, cap and output. A call that is stopped is
cancelled; if it does not end within the grace, its child is killed. A child that dies takes every call down that it had
begun: that is the price of sharing it. If there were several, none is blamed and all are tried again alone
(`neighbours.py`).
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec
import structlog

from rota.execute.attempts.attempt import Finish, Held, Phase, stopped
from rota.execute.attempts.full_disk import FullDisk
from rota.execute.attempts.sharing import Company
from rota.execute.functions.child_link import WarmChild
from rota.execute.functions.child_pool import Cradle, Nursery
from rota.execute.functions.ends import crash, unless_disk_is_full
from rota.execute.functions.neighbours import Apart, is_excusable, was_kept_from_running
from rota.execute.functions.questions import Desk
from rota.execute.functions.replies import Garbled
from rota.execute.keeper_link import End, KeeperLink
from rota.execute.logs.capture import Capture, Flow
from rota.execute.messages import calls
from rota.model.attempt import Outcome
from rota.model.resources import Resources
from rota.model.units import duration_text
from rota.wire import Failure

log = structlog.get_logger()

MODULE = "rota.execute.child.main_concurrent"
_PER_CPU = 32
_MOST_VOICES = 256
_LEAST_PROCESSES = _MOST_VOICES + 64  # each call has a thread, and threads count
_TICK_SECONDS = 0.05
_START_SECONDS = 60.0
_MOST_KNOWN = 10_000
_OUTCOMES = {int(outcome): outcome for outcome in Outcome}


class Bench(Protocol):
    """What it needs of the node's owner of attempts."""

    def peek(self, shape: bytes) -> Held | None: ...

    def follow(self, held: Held) -> None: ...

    def put_back(self, returned: list[Held]) -> None: ...

    def finished(self, held: Held, finish: Finish) -> None: ...

    def slot_free(self, room: Resources) -> None: ...


class Bounds(Protocol):
    log_limit_bytes: int
    result_limit_bytes: int


class Chorus:
    def __init__(
        self,
        *,
        bench: Bench,
        link: KeeperLink,
        flow: Flow,
        cradle: Cradle,
        bounds: Bounds,
        desk: Desk | None,
        kill_grace_seconds: float,
        apart: Apart,
        full_disk: FullDisk,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._apart = apart
        self._full_disk = full_disk
        self._bench = bench
        self._link = link
        self._flow = flow
        self._bounds = bounds
        self._desk = desk
        self._kill_grace_seconds = kill_grace_seconds
        self._nursery = Nursery(
            owner=self, link=link, flow=flow, cradle=cradle, kill_grace_seconds=kill_grace_seconds, keep_idle=1,
            module=MODULE,
        )  # fmt: skip
        self._busy: dict[WarmChild, Resources] = {}
        self._child_of: dict[Held, WarmChild] = {}
        self._began: dict[Held, float] = {}
        self._known: dict[tuple[Company, str], None] = {}  # functions that are async, as far as we know
        self._tick_timer: asyncio.TimerHandle | None = None

    def learn(self, held: Held) -> None:
        """Its function is async: whoever sends calls here hears how many may come at once."""
        if len(self._known) < _MOST_KNOWN:
            self._known[held.terms.company, held.run.name] = None
        if self.takes(held):
            held.voices = _voices(held.room)

    def takes(self, held: Held) -> bool:
        room = held.room
        return (
            (held.terms.company, held.run.name) in self._known
            and not held.is_solo
            and held.run.task not in self._apart.tasks
            and not 0 < held.terms.processes < _LEAST_PROCESSES
            and not (room.ports or room.gpus or room.gpu_milli or held.devices or held.run.secrets)
        )

    def has(self, held: Held) -> bool:
        return held in self._child_of

    def start(self, held: Held) -> None:
        child = self._nursery.take(held)
        self._busy[child] = held.room
        self._child_of[held] = child
        self._began[held] = child.front_since = self._loop.time()
        if child.limit_orders:
            child.waiting = held
        else:
            self._put(child, held)
        if self._tick_timer is None:
            self._tick_timer = self._loop.call_later(_TICK_SECONDS, self._tick)

    def top_up(self) -> None:
        for child in list(self._busy):
            self._top_up(child)

    def recall(self, held: Held) -> bool:
        """Takes a call back that its child has not read; False if it runs."""
        child = self._child_of[held]
        if child.waiting is held:
            child.waiting = None
            self._return([held])
        else:
            self._return(child.take_back())
        if not child.sent and child in self._busy:
            self._rest_and_free(child)
        return held.phase is Phase.WAITING

    def stop(self, held: Held) -> None:
        child = self._child_of[held]
        if child.is_ready and child.tell(calls.CANCEL + held.call.to_bytes(8, "big")):
            self._loop.call_later(self._kill_grace_seconds, self.kill, held)
        else:
            self.kill(held)

    def kill(self, held: Held) -> None:
        child = self._child_of.get(held)
        if child is not None:
            child.is_leaving = True
            self._link.kill(child.number)

    def reload(self) -> None:
        self._nursery.reload()

    def close(self) -> None:
        self._nursery.close()

    def dismiss_idle(self) -> None:
        self._nursery.dismiss_idle()

    # ---- children --------------------------------------------------------------------------------------------------

    def child_born(self, child: WarmChild) -> None:
        self._loop.add_reader(child.descriptor(), self._on_readable, child)
        if self._desk is not None:
            self._desk.open(child.desk, child.held_of)

    def child_limited(self, child: WarmChild, *, took: bool) -> None:
        held, child.waiting = child.waiting, None
        if held is None:
            return
        if not took:
            room = self._busy.pop(child)
            self._nursery.dismiss(child)
            child = self._child_of[held] = self._nursery.bear(child.company, child.limits, held.fence_ms)
            self._busy[child] = room
        self._put(child, held)

    def child_over(self, child: WarmChild, end: End) -> None:
        self._read(child, is_dead=True)
        self._loop.remove_reader(child.descriptor())
        unbegun = child.take_back() if child.is_ready else []
        if child.waiting is not None:
            unbegun.append(child.waiting)
        self._return([held for held in unbegun if held.stopping is None])
        begun = len(child.sent)
        for held in [*child.sent, *(held for held in unbegun if held.stopping is not None)]:
            finish = crash(held, child, end, Capture(*held.key, 0), self._elapsed_us(held))
            if begun > 1 and is_excusable(held, child, end):
                finish = self._apart.excuse(held, finish, f"one of {begun} calls in its process ended it")
            else:
                finish = self._apart.excuse_if_little_was_left(held, child, end, finish)
                if child.calls_made > 1:  # what it and those before it used is not told apart
                    finish = msgspec.structs.replace(finish, cpu_ms=0, written_bytes=0)
                finish = unless_disk_is_full(self._full_disk, held, end, finish)
            self._finish(held, finish)
        self._nursery.gone(child, end)
        if self._desk is not None:
            self._desk.close(child.desk)
        child.close()
        room = self._busy.pop(child, None)
        if room is not None:
            self._bench.slot_free(room)

    # ---- calls -----------------------------------------------------------------------------------------------------

    def _put(self, child: WarmChild, held: Held) -> bool:
        self._began[held] = self._loop.time()
        if not child.put(held, self._bounds.result_limit_bytes):
            return False
        self._child_of[held] = child
        return True

    def _top_up(self, child: WarmChild) -> None:
        if child.is_leaving or child.is_outdated or not child.is_ready or not child.sent:
            return
        first = child.sent[0]
        most = _voices(first.room)
        while len(child.sent) < most:
            held = self._bench.peek(first.shape)
            if held is None or held.fence_ms != child.fence_ms or not self.takes(held) or not self._put(child, held):
                return
            self._bench.follow(held)

    def _on_readable(self, child: WarmChild) -> None:
        self._read(child)
        self._top_up(child)

    def _read(self, child: WarmChild, *, is_dead: bool = False) -> None:
        while True:
            try:
                reply = child.next_reply(self._bounds.result_limit_bytes)
                if reply is None:
                    break
                if reply.number == 0:
                    self._ready(child, reply)
                    continue
                held = next((one for one in child.sent if one.call == reply.number), None)
                if held is None or not child.is_ready:
                    raise Garbled(f"it answers call {reply.number}, which it does not have")
            except Garbled as error:
                if not is_dead:
                    log.warning("a function's process broke the protocol and is ended", why=str(error))
                    child.broken = str(error)
                    child.is_leaving = True
                    self._loop.remove_reader(child.descriptor())
                    self._link.kill(child.number)
                break
            child.sent.remove(held)
            child.grown_bytes = reply.grown_bytes
            self._answered(child, held, reply)
        if not child.sent and child.waiting is None and child in self._busy and not is_dead:
            self._rest_and_free(child)

    def _answered(self, child: WarmChild, held: Held, reply: calls.Reply) -> None:
        if reply.retire:
            child.is_outdated = True  # it leaves when it has answered all it has
        if reply.is_async:
            held.voices = _voices(held.room)
        else:
            self._known.pop((held.terms.company, held.run.name), None)
        if held.stopping is not None:
            finish = Finish(outcome=held.stopping, run_us=reply.run_us, failure=stopped(held, held.stopping))
            if was_kept_from_running(held, self._elapsed_us(held), reply.stalled_us):
                blocked = duration_text(reply.stalled_us // 1000)
                finish = self._apart.excuse(held, finish, f"calls in its process blocked each other for {blocked}")
            self._finish(held, finish)
        elif reply.solo or reply.stale:
            held.is_solo = True  # the ordinary way is right for it in any case, and bounds how often it is given back
            if reply.stale:
                self._nursery.reload(child.company)
            self._return([held])
        else:
            finish = Finish(
                outcome=_OUTCOMES[reply.outcome],
                run_us=reply.run_us,
                result=reply.result,
                failure=None if reply.failure is None else Failure(*reply.failure),
                retry_in_ms=reply.retry_in_ms,
                capture=self._capture(held, reply),
            )
            self._finish(held, finish if reply.failure is None else self._full_disk.judge(held, finish))

    def _elapsed_us(self, held: Held) -> int:
        return max(0, int((self._loop.time() - self._began[held]) * 1e6))

    def _capture(self, held: Held, reply: calls.Reply) -> Capture | None:
        if not reply.output:
            return None
        capture = Capture(*held.key, self._bounds.log_limit_bytes)
        for stream, data in reply.output:
            capture.add(stream, data)
        self._flow.took(capture.kept_bytes)
        if reply.output_dropped_bytes:
            capture.drop(reply.output_dropped_bytes)
        return capture

    def _ready(self, child: WarmChild, reply: calls.Reply) -> None:
        if child.is_ready or child.failure is not None:
            raise Garbled("it says a second time that it is ready")
        child.is_ready = reply.failure is None
        child.failure = reply.failure
        if child.is_ready:
            self._began |= dict.fromkeys(child.sent, self._loop.time())  # its start-up is not on their account
            self._nursery.ready(child)
        else:
            child.is_leaving = True

    def _return(self, unbegun: list[Held]) -> None:
        for held in unbegun:
            del self._child_of[held], self._began[held]
        if unbegun:
            self._bench.put_back(unbegun)

    def _finish(self, held: Held, finish: Finish) -> None:
        del self._child_of[held], self._began[held]
        self._bench.finished(held, finish)

    def _rest_and_free(self, child: WarmChild) -> None:
        room = self._busy.pop(child)
        if not child.is_leaving:
            self._nursery.rest(child)
        self._bench.slot_free(room)

    def _tick(self) -> None:
        now = self._loop.time()
        for held, began in list(self._began.items()):
            child = self._child_of[held]
            if not child.is_ready:
                if now - began > _START_SECONDS:
                    self.kill(held)
            elif (
                held.run.cap_ms
                and (now - began + held.fetch_seconds) * 1000 >= held.run.cap_ms
                and held.stopping is None
            ):
                held.stopping = Outcome.TIMEOUT
                self.stop(held)
        more = self._nursery.look_after_idle(now)
        wait = _TICK_SECONDS if self._busy else 1.0
        self._tick_timer = self._loop.call_later(wait, self._tick) if self._busy or more else None


def _voices(room: Resources) -> int:
    """How many calls run at once in a child that was granted this."""
    return min(_MOST_VOICES, max(1, _PER_CPU * room.cpu_milli // 1000))
