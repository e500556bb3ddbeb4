"""How an agent leaves: when it is stopped, after one task (`--once`), or after a while without work (`--idle-exit`).

A leaving agent says goodbye and waits until the leader has acknowledged it, so that no task is sent to a node that is
gone, and people see that it has left. An agent that leaves by itself has first settled all its results.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from rota.execute.attempts.outbox import Outbox
from rota.execute.attempts.workbench import Workbench
from rota.execute.logs.shipping import LogShipper

log = structlog.get_logger()

_GOODBYE_SECONDS = 5.0  # for the leader to acknowledge; without a leader there is no goodbye
_STOPPED_GOODBYE_SECONDS = 2.0  # the same for a stopped agent, for which somebody waits
_GRACE_PART = 0.7  # of the time to stop: tasks have it between TERM and KILL, unless the usual grace is shorter
_LINGER_SECONDS = 0.5  # starts that the leader decided before the goodbye still arrive and are given back


@dataclass(frozen=True, slots=True)
class Stay:
    """How long an agent stays. Neither field set: until it is stopped."""

    once: bool = False
    idle_seconds: float | None = None


class NeverTaken(RuntimeError):
    """The agent had no work because every server refused it; the message says why."""


async def leave_when_due(
    stay: Stay, bench: Workbench, outbox: Outbox, stop: asyncio.Event, why_refused: Callable[[], str | None]
) -> None:
    """Sets `stop` when it is time to leave; never, if no `Stay` was asked for.

    `why_refused`: why servers refuse this agent. NeverTaken: its starter must know.
    """
    reasons = set()
    if stay.once:
        bench.take_only_one()
        reasons.add(asyncio.create_task(_one_done(bench, outbox), name="one task is done"))
    if stay.idle_seconds is not None:
        reasons.add(asyncio.create_task(_idle(bench, outbox, stay.idle_seconds), name="nothing to do"))
    if not reasons:
        return
    try:
        done, _ = await asyncio.wait(reasons, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for reason in reasons:
            reason.cancel()
    why = done.pop()
    why.result()
    refusal = why_refused()
    if refusal is not None:
        raise NeverTaken(f"it got no work, because it was refused: {refusal}")
    log.info("leaving by itself", why=why.get_name())
    await _take_leave(bench)
    await bench.empty.wait()  # it may have been given work at the last moment
    await outbox.settled_all.wait()
    stop.set()


async def _one_done(bench: Workbench, outbox: Outbox) -> None:
    await bench.worked.wait()
    await outbox.settled_all.wait()


async def _idle(bench: Workbench, outbox: Outbox, idle_seconds: float) -> None:
    """A node without a leader has nothing to do either."""
    while True:
        await bench.empty.wait()
        await outbox.settled_all.wait()
        try:
            async with asyncio.timeout(idle_seconds):
                await bench.busy.wait()
        except TimeoutError:
            if bench.empty.is_set() and outbox.settled_all.is_set():
                return


async def _take_leave(bench: Workbench) -> None:
    asked_at = time.monotonic()
    bench.leave()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await _acknowledged(bench, since=asked_at)
            await asyncio.sleep(_LINGER_SECONDS)


async def _acknowledged(bench: Workbench, *, since: float) -> None:
    """Waits until a leader has answered something that was sent after this call."""
    while bench.trusted_at < since:
        bench.acknowledged.clear()
        await bench.acknowledged.wait()


async def wind_down(
    bench: Workbench,
    outbox: Outbox,
    shipper: LogShipper,
    *,
    stop_seconds: float,
    has_leader: bool,  # without a leader there is no goodbye
) -> None:
    """Ends what runs; results, goodbye and output arrive within `stop_seconds`, or are left."""
    log.info("stopping", attempts=bench.attempt_count)
    asked_at = time.monotonic()
    bench.leave()
    bench.disrupt_all()
    try:
        async with asyncio.timeout(stop_seconds):
            await _emptied(bench, stop_seconds * _GRACE_PART)
            await outbox.settled_all.wait()
            if has_leader:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_STOPPED_GOODBYE_SECONDS):
                        await _acknowledged(bench, since=asked_at)
            await shipper.sent_all.wait()
    except TimeoutError:
        left = {"results": len(outbox.unacknowledged), "attempts": bench.attempt_count}
        log.warning("stopped before all results and output were stored", **left)


async def _emptied(bench: Workbench, grace_seconds: float) -> None:
    """Waits until nothing runs. What has not ended after the grace is killed."""
    try:
        async with asyncio.timeout(grace_seconds):
            await bench.empty.wait()
    except TimeoutError:
        bench.kill_all()
        await bench.empty.wait()
