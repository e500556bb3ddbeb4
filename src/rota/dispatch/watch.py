"""The slow loop of a leader: polls rows, gives up silent nodes, passes on owners' stops, recalls stuck prefetches.

It reads from rows everything that the fast loops learn from messages, so a lost message costs a second, never a task.
Attempts are given up one by one: only when their node was silent for the attempt's grace.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog

from rota import wire
from rota.decide.messages import CapChanged
from rota.dispatch.closed_nodes import save_reports, tell_core
from rota.dispatch.concurrency_keys import follow_keys
from rota.dispatch.operator_rules import save_run_times, save_shares
from rota.dispatch.pool import Authorised, PoolState
from rota.model.attempt import Outcome
from rota.model.clock import to_us
from rota.model.errors import Problem
from rota.store import nodes, queue
from rota.store.caps import load_changed_caps
from rota.store.database import AnyConnection, Database
from rota.store.events import record_promoted
from rota.store.reading import database_clock

log = structlog.get_logger()

RECALL_AFTER_SECONDS = 1.0
VACUUM_SECONDS = 30.0
DEPENDENTS_A_POLL = 1_000
TIMER_SECONDS = 0.02
CAPS = "caps"  # the capability of agents that understand a changed cap


class Watch:
    """The state of the loop from one poll to the next."""

    def __init__(self, pool: PoolState) -> None:
        self._pool = pool
        self._released_after = 0
        self._saved_at = pool.clock()

    def check_nodes(self) -> None:
        """The part that needs no database: silent nodes and stuck prefetches."""
        give_up_silent_nodes(self._pool)
        close_silent_sessions(self._pool)
        recall_stuck(self._pool)

    async def read(self, reads: AnyConnection) -> list[int]:
        """Reads all rows of interest; returns the dependents to release. A pooled connection will do: no fence."""
        pool = self._pool
        await measure_clock(pool, reads)
        await save_reports(pool, reads)
        await tell_promoted(pool, reads)
        for task, attempt, for_good in await queue.load_stopping(reads, pool.id):
            stop_attempt(pool, task, attempt, "cancel" if for_good else "pause")
        await follow_caps(pool, reads)
        await follow_keys(pool, reads)
        dependents = await queue.dependents_to_release(
            reads, pool.id, after=self._released_after, limit=DEPENDENTS_A_POLL
        )
        self._released_after = dependents[-1] if len(dependents) == DEPENDENTS_A_POLL else 0
        if pool.clock() - self._saved_at > pool.settings.timings.heartbeat_seconds:
            self._saved_at = pool.clock()
            now = pool.clock()
            await nodes.touch_nodes(reads, {node: now - one.heard_at for node, one in pool.sessions.items()})
            await save_shares(pool, reads)
            await save_run_times(pool, reads)
        return dependents

    def wake(self, dependents: list[int]) -> None:
        wakes = self._pool.wakes
        self._pool.unsettled.dependents.extend(dependents)
        wakes.poll_due = True
        wakes.settle.set()
        wakes.cycle.set()


async def run_watch(pool: PoolState, database: Database) -> None:
    watch = Watch(pool)
    vacuumed_at = pool.clock()
    while True:
        await _pause(pool)
        watch.check_nodes()
        dependents: list[int] = []
        try:
            async with database.engine() as reads:
                dependents = await watch.read(reads)
                if pool.clock() - vacuumed_at > VACUUM_SECONDS:
                    vacuumed_at = pool.clock()
                    await queue.vacuum_queue(reads)
        except Problem as error:
            log.warning("watch.database_away", pool=pool.name, error=error.detail)
        watch.wake(dependents)


async def _pause(pool: PoolState) -> None:
    """Waits until the next poll. A timer that runs out before wakes only the cycle."""
    poll_at = pool.clock() + pool.settings.timings.poll_seconds
    while not pool.wakes.poll_hinted and (now := pool.clock()) < poll_at:
        timer = pool.loader.next_timer_at
        if timer is not None and timer <= now:
            pool.wakes.cycle.set()
            timer = now + TIMER_SECONDS  # the cycle sets the next timer meanwhile
        pool.wakes.poll.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(poll_at, timer or poll_at) - now):
                await pool.wakes.poll.wait()
    pool.wakes.poll_hinted = False


async def measure_clock(pool: PoolState, connection: AnyConnection) -> None:
    """Changes the offset only if it is impossible now: on a busy machine a reply is slow, and a new estimate each time
    would make recorded instants jump.
    """
    before = pool.clock()
    now_us = to_us(await database_clock(connection))
    least_us, most_us = now_us - int(pool.clock() * 1_000_000), now_us - int(before * 1_000_000)
    if not least_us <= pool.clock_offset_us <= most_us:
        pool.clock_offset_us = (least_us + most_us) // 2


async def tell_promoted(pool: PoolState, connection: AnyConnection) -> None:
    """Becoming urgent writes nothing by itself. The loader finds such tasks again until this has told of them."""
    promoted, pool.loader.promoted = pool.loader.promoted, set()
    if promoted:
        await record_promoted(connection, sorted(promoted))


def give_up_silent_nodes(pool: PoolState) -> None:
    """A node that was silent for an attempt's grace is dead or has killed it: the attempt is lost."""
    now = pool.clock()
    silent = [a for a in pool.attempts.values() if a.node not in pool.sessions and not a.reported]
    for attempt in silent:
        if now - silent_since(pool, attempt) >= attempt.grace_ms / 1000:
            pool.give_up(attempt, Outcome.LOST, "its node went silent")
            log.warning("watch.lost", pool=pool.name, node=attempt.node, task=attempt.task, attempt=attempt.attempt)


def silent_since(pool: PoolState, attempt: Authorised) -> float:
    """When an attempt's grace began: the last frame of its node, the beginning of this term, or its authorisation.

    The last of the three counts: a node that left just before the authorisation never had the attempt for longer.
    """
    heard_at = pool.heard_at.get(attempt.node, 0.0)
    return max(heard_at, pool.began_at, attempt.at)


def close_silent_sessions(pool: PoolState) -> None:
    limit = pool.settings.timings.silent_seconds
    for session in list(pool.sessions.values()):
        if pool.clock() - session.heard_at > limit:
            log.warning("watch.silent", pool=pool.name, node=session.name)
            session.close(1001, "no heartbeat")
            pool.leave(session)


def stop_attempt(pool: PoolState, task: int, attempt: int, reason: str) -> None:
    """Sends the stop once for each connection. Settlement of the result reads the owner's request again."""
    authorised = pool.attempts.get(task)
    if authorised is None or authorised.attempt != attempt:
        return
    session = pool.sessions.get(authorised.node)
    if session is not None and session.boot == authorised.boot and authorised.stop_sent != session.number:
        authorised.stop_sent = session.number
        session.send(wire.Stop(pool.lease.epoch, [(task, attempt)], reason))


async def follow_caps(pool: PoolState, connection: AnyConnection) -> None:
    """Passes on changed caps whose hint was lost, or whose leader is new, or whose agent came back."""
    for task, attempt, cap_ms in await load_changed_caps(connection, pool.id):
        send_cap(pool, task, attempt, cap_ms)


def send_cap(pool: PoolState, task: int, number: int, cap_ms: int) -> None:
    """Tells the node that the cap of a running task changed. Once for each connection and cap."""
    attempt = pool.attempts.get(task)
    if attempt is None or attempt.attempt != number or attempt.reported:
        return
    pool.core.apply(CapChanged(task, cap_ms), pool.now_us())
    session = pool.sessions.get(attempt.node)
    if session is None or session.boot != attempt.boot or CAPS not in session.capabilities:
        return
    if attempt.cap_sent != (session.number, cap_ms):
        attempt.cap_sent = (session.number, cap_ms)
        session.send(wire.Caps(pool.lease.epoch, [(task, number, cap_ms)]))


def follow_drains(pool: PoolState, draining: dict[int, bool]) -> None:
    """Applies operators' changes in the nodes' rows since the last poll: nodes that drain, and nodes that reopened."""
    for session in list(pool.sessions.values()):
        if (session.node in draining) == session.draining:
            continue
        session.draining = not session.draining
        tell_core(pool, session)
        session.send(wire.Drain(pool.lease.epoch, is_over=not session.draining))
        log.info("node.draining" if session.draining else "node.undrained", pool=pool.name, node=session.name)
    overdue = {node for node, is_overdue in draining.items() if is_overdue}
    if overdue:  # their attempts save, stop, come back as disrupted and run on other nodes
        for attempt in list(pool.attempts.values()):
            if attempt.node in overdue and not attempt.reported:
                stop_attempt(pool, attempt.task, attempt.attempt, "drain")


def recall_stuck(pool: PoolState) -> None:
    """Takes prefetched tasks back if their node is busy for longer than expected and another node has room."""
    now = pool.clock()
    state = pool.core.state
    stuck: dict[int, list[tuple[int, int]]] = {}
    for node in state.nodes.values():
        if not node.behind or node.id not in pool.sessions:
            continue
        for task, (shape, _) in node.behind.items():
            attempt = pool.attempts.get(task)
            if attempt is None or now - attempt.at < RECALL_AFTER_SECONDS:
                continue
            if not pool.core.has_room(shape):
                break
            stuck.setdefault(node.id, []).append((task, attempt.attempt))
    for node_id, attempts in stuck.items():
        pool.sessions[node_id].send(wire.Recall(pool.lease.epoch, attempts))
