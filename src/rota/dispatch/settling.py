"""The settling loop: results in, one fenced batch, then acknowledge, tell, and free what follows.

A batch is repeated until it is certain: the statements compare and set, so a repeat after a lost reply does nothing.
One bad result can't hold the others up: a batch the database rejects is halved until the culprit stands alone.
"""

from __future__ import annotations

import asyncpg
import structlog

from rota.decide.messages import KeysFreed
from rota.dispatch.fenced_connection import FencedConnection
from rota.dispatch.pool import MOST_RESULTS, PoolState, Spacing
from rota.model.attempt import Outcome
from rota.settle.settlement import NotLeader, Reported, Settled, release, settle
from rota.store.database import CONNECTION_LOST
from rota.wire import Failure, Result

log = structlog.get_logger()

MOST_CHILDREN = 1_000


async def run_settling(pool: PoolState, connection: FencedConnection) -> None:
    spacing = Spacing(pool.clock, pool.sleep, Spacing.RESULTS)

    def worth_it() -> int:
        """A level of a cascade is never kept waiting."""
        return len(pool.reports) + (Spacing.ENOUGH if pool.children else 0)

    while True:
        await pool.settle_wake.wait()
        await spacing.wait(worth_it)
        pool.settle_wake.clear()
        while (pool.reports or pool.children) and pool.lease.valid():
            try:
                spacing.mark(await _settle_some(pool, connection))
                await spacing.wait(worth_it)
            except NotLeader:
                log.warning("settling.fenced", pool=pool.name)
                pool.lease.end()
                return
            except CONNECTION_LOST as error:
                log.warning("settling.in_doubt", pool=pool.name, error=repr(error))
                connection.lost()
                break  # the slow poll wakes us again, and the same batch is settled again


async def _settle_some(pool: PoolState, connection: FencedConnection) -> int:
    """Settles one batch; how many rows it was about."""
    if pool.reports:
        batch = _take(pool)
        try:
            settled = await settle(await connection.get(), pool.fence, batch)
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, ValueError) as error:
            _divide(pool, batch, error)
            return 0
        except asyncpg.TransactionRollbackError:  # deadlock: try the halves
            pool.reports.extendleft(reversed(batch))
            pool.batch_limit = max(1, len(batch) // 2)
            return 0
        except BaseException:
            pool.reports.extendleft(reversed(batch))
            raise
        pool.batch_limit = min(2 * pool.batch_limit, MOST_RESULTS)
        _acknowledge(pool, batch, settled)
        rows = len(batch)
    else:
        children = [pool.children.popleft() for _ in range(min(MOST_CHILDREN, len(pool.children)))]
        try:
            settled = await release(await connection.get(), pool.fence, children)
        except asyncpg.TransactionRollbackError:  # deadlock with a cancel: the same again
            pool.children.extendleft(reversed(children))
            return 0
        except BaseException:
            pool.children.extendleft(reversed(children))
            raise
        rows = len(children)
    _follow_up(pool, settled)
    return rows


def _take(pool: PoolState) -> list[Reported]:
    """The next batch, one report a task: a resent result must not meet itself in one statement."""
    batch: dict[int, Reported] = {}
    later: list[Reported] = []
    while pool.reports and len(batch) < pool.batch_limit:
        report = pool.reports.popleft()
        if report.result.task in batch:
            later.append(report)
        else:
            batch[report.result.task] = report
    pool.reports.extendleft(reversed(later))
    return list(batch.values())


def _divide(pool: PoolState, batch: list[Reported], error: Exception) -> None:
    """The database refuses something in the batch: smaller ones, until the one that is wrong stands alone."""
    if len(batch) > 1:
        pool.reports.extendleft(reversed(batch))
        pool.batch_limit = len(batch) // 2
        return
    result, boot = batch[0].result, batch[0].boot
    log.error("settling.bad_result", pool=pool.name, task=result.task, error=repr(error))
    known = pool.attempts.get(result.task)
    if known is None or known.attempt != result.attempt or known.boot != boot:
        return  # an attempt nobody authorised: nothing to settle, and trying again would never end
    failure = Failure("bad-result", f"the result can't be stored: {type(error).__name__}")
    pool.reports.appendleft(Reported(Result(result.task, result.attempt, Outcome.BAD_RESULT, 0, failure=failure), boot))


def _acknowledge(pool: PoolState, batch: list[Reported], settled: Settled) -> None:
    """Everything in the batch is certain now, settled by it or before it: agents may forget it."""
    changed = {task for task, _ in settled.ended} | {t.id for t in settled.ready} | {t.id for t in settled.timed}
    changed |= set(settled.paused)
    for report in batch:
        result = report.result
        if result.task not in changed:
            pool.superseded += 1
        known = pool.attempts.get(result.task)
        if known is not None and (known.attempt, known.boot) == (result.attempt, report.boot):
            del pool.attempts[result.task]
    by_boot: dict[int, list[tuple[int, int]]] = {}
    for report in batch:
        by_boot.setdefault(report.boot, []).append((report.result.task, report.result.attempt))
    for session in pool.sessions.values():
        attempts = by_boot.get(session.boot)
        if attempts:
            session.settled(attempts)
    pool.settled += len(batch)


def _follow_up(pool: PoolState, settled: Settled) -> None:
    if settled.freed:
        pool.core.apply(KeysFreed(settled.freed), pool.now_us())
        pool.cycle_wake.set()
    if settled.ready:
        pool.loader.arrived(settled.ready, pool.now_us())
        pool.cycle_wake.set()
    if settled.timed:
        pool.loader.timer(0.05)
        pool.poll_wake.set()
    if settled.more_children:
        pool.children.extend(settled.more_children)
    if settled.ended:
        pool.on_ended(settled.ended)
    if settled.elsewhere:
        pool.on_elsewhere(settled.elsewhere)
