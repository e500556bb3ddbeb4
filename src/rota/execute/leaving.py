"""How an agent goes: because it was told to stop, or by itself, for machines that are paid for while they run: after
one task (`--once`), or after a while with nothing to do (`--idle-exit`).

Whoever goes says goodbye: the leader is told to send nothing more and has said that it heard, so that no task is sent
to a node that is gone and waits there for its grace, and people see that it has left. Who goes by itself never does so
with something in its hands: results are settled first.
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

_GOODBYE_SECONDS = 5.0  # for the leader to hear of it; without a leader there is nobody to tell
_STOPPED_GOODBYE_SECONDS = 2.0  # as much, for one that somebody waits for
_LINGER_SECONDS = 0.5  # what it had decided before it heard still arrives, and is given back


@dataclass(frozen=True, slots=True)
class Stay:
    """How long an agent stays. Neither: until it is told to stop."""

    once: bool = False
    idle_seconds: float | None = None


class NeverTaken(RuntimeError):
    """It had nothing to do because no server would have it; the text says why."""


async def leave_when_due(
    stay: Stay, bench: Workbench, outbox: Outbox, stop: asyncio.Event, why_refused: Callable[[], str | None]
) -> None:
    """Sets `stop` when it is time. Never, if nothing of the kind was asked for.

    `why_refused`: what servers have against this agent. Who started it must hear of that: NeverTaken.
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
    await bench.empty.wait()  # it may have been given something at the last moment
    await outbox.settled_all.wait()
    stop.set()


async def _one_done(bench: Workbench, outbox: Outbox) -> None:
    await bench.worked.wait()
    await outbox.settled_all.wait()


async def _idle(bench: Workbench, outbox: Outbox, idle_seconds: float) -> None:
    """A node that no leader speaks to has nothing to do either."""
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
            await _heard(bench, since=asked_at)
            await asyncio.sleep(_LINGER_SECONDS)


async def _heard(bench: Workbench, *, since: float) -> None:
    """Until a leader has answered something that was said after that moment."""
    while bench.trusted_at < since:
        bench.acknowledged.clear()
        await bench.acknowledged.wait()


async def wind_down(
    bench: Workbench,
    outbox: Outbox,
    shipper: LogShipper,
    *,
    kill_grace_seconds: float,
    settle_seconds: float,
    has_leader: bool,  # else there is nobody to say goodbye to
) -> None:
    """Ends what runs, and waits a moment for results, goodbye and output to arrive; for none of them for ever."""
    log.info("stopping", attempt=bench.attempt_count)
    asked_at = time.monotonic()
    bench.leave()
    bench.disrupt_all()
    try:
        async with asyncio.timeout(kill_grace_seconds + settle_seconds):
            await bench.empty.wait()
            await outbox.settled_all.wait()
    except TimeoutError:
        log.warning("stopped before the last results were settled", results=len(outbox.unacknowledged))
        return
    if has_leader:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOPPED_GOODBYE_SECONDS):
                await _heard(bench, since=asked_at)
    try:
        async with asyncio.timeout(settle_seconds):
            await shipper.sent_all.wait()
    except TimeoutError:
        log.warning("stopped before all output was sent; the rest of it is lost")
