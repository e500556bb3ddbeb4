"""The settling loop: writes results in one fenced batch, then acknowledges them, wakes clients and releases dependents.

A batch is repeated until its commit is certain: the statements compare and set, so a repeat changes nothing. One bad
result can't hold up the others: a batch that the database rejects is halved until the bad result stands alone.
"""

from __future__ import annotations

import asyncpg
import structlog

from rota.decide.messages import KeysFreed
from rota.dispatch.fenced_connection import FencedConnection
from rota.dispatch.pool import MOST_RESULTS, PoolState, Unsettled
from rota.dispatch.spacing import Spacing
from rota.model.attempt import Outcome
from rota.settle.settlement import NotLeader, Reported, Settled, release, settle
from rota.store.database import CONNECTION_LOST
from rota.wire import Failure, Result

log = structlog.get_logger()

MOST_RELEASED = 1_000
LONGEST_RUN_US = 10 * 366 * 86_400 * 1_000_000


async def run_settling(pool: PoolState, connection: FencedConnection) -> None:
    unsettled, spacing = pool.unsettled, Spacing(pool.clock, pool.sleep, Spacing.RESULTS)

    def rows() -> int:
        """Dependents never wait: a cascade has a batch for each of its levels."""
        return len(unsettled.reports) + (Spacing.ENOUGH if unsettled.dependents else 0)

    while True:
        await pool.wakes.settle.wait()
        await spacing.wait(rows)
        pool.wakes.settle.clear()
        while (unsettled.reports or unsettled.dependents) and pool.lease.valid():
            try:
                spacing.mark(await _settle_some(pool, connection))
                await spacing.wait(rows)
            except NotLeader:
                log.warning("settling.fenced", pool=pool.name)
                pool.lease.end()
                return
            except CONNECTION_LOST as error:
                log.warning("settling.in_doubt", pool=pool.name, error=repr(error))
                connection.lost()
                break  # the slow poll wakes this loop, and the same batch is settled again


async def _settle_some(pool: PoolState, connection: FencedConnection) -> int:
    """Settles one batch; returns its number of rows."""
    unsettled = pool.unsettled
    if unsettled.reports:
        batch = _take(unsettled)
        try:
            settled = await settle(await connection.get(), pool.fence, batch)
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, ValueError) as error:
            _divide(pool, batch, error)
            return 0
        except asyncpg.TransactionRollbackError:  # deadlock: try the halves
            unsettled.reports.extendleft(reversed(batch))
            unsettled.batch_limit = max(1, len(batch) // 2)
            return 0
        except BaseException:
            unsettled.reports.extendleft(reversed(batch))
            raise
        unsettled.batch_limit = min(2 * unsettled.batch_limit, MOST_RESULTS)
        _acknowledge(pool, batch, settled)
        rows = len(batch)
    else:
        dependents = [unsettled.dependents.popleft() for _ in range(min(MOST_RELEASED, len(unsettled.dependents)))]
        try:
            settled = await release(await connection.get(), pool.fence, dependents)
        except asyncpg.TransactionRollbackError:  # deadlock with a cancel: the same again
            unsettled.dependents.extendleft(reversed(dependents))
            return 0
        except BaseException:
            unsettled.dependents.extendleft(reversed(dependents))
            raise
        rows = len(dependents)
    _follow_up(pool, settled)
    return rows


def _take(unsettled: Unsettled) -> list[Reported]:
    """The next batch, one report for each task: a result that was sent twice must not meet itself in one statement."""
    batch: dict[int, Reported] = {}
    later: list[Reported] = []
    while unsettled.reports and len(batch) < unsettled.batch_limit:
        report = unsettled.reports.popleft()
        if report.result.task in batch:
            later.append(report)
        else:
            batch[report.result.task] = report
    unsettled.reports.extendleft(reversed(later))
    return list(batch.values())


def _divide(pool: PoolState, batch: list[Reported], error: Exception) -> None:
    """The database refuses a result in the batch: smaller batches follow until it stands alone."""
    if len(batch) > 1:
        pool.unsettled.reports.extendleft(reversed(batch))
        pool.unsettled.batch_limit = len(batch) // 2
        return
    result, boot = batch[0].result, batch[0].boot
    log.error("settling.bad_result", pool=pool.name, task=result.task, error=repr(error))
    attempt = pool.attempts.get(result.task)
    if attempt is None or attempt.attempt != result.attempt or attempt.boot != boot:
        return  # nobody authorised the attempt: there is nothing to settle, and a retry would never end
    failure = Failure("bad-result", f"the result can't be stored: {type(error).__name__}")
    run_us = min(max(0, result.run_us), LONGEST_RUN_US)  # it may be what the database refuses
    bad = Result(result.task, result.attempt, Outcome.BAD_RESULT, run_us, failure=failure)
    pool.unsettled.reports.appendleft(Reported(bad, boot, batch[0].at_us))


def _acknowledge(pool: PoolState, batch: list[Reported], settled: Settled) -> None:
    """Every result of the batch is settled, by this batch or an earlier one: agents may forget it."""
    changed = {task for task, _ in settled.ended} | {t.id for t in settled.ready} | {t.id for t in settled.timed}
    changed |= set(settled.paused)
    for report in batch:
        result = report.result
        if result.task not in changed:
            pool.counters.superseded += 1
        attempt = pool.attempts.get(result.task)
        if attempt is not None and (attempt.attempt, attempt.boot) == (result.attempt, report.boot):
            del pool.attempts[result.task]
    by_boot: dict[int, list[tuple[int, int]]] = {}
    for report in batch:
        by_boot.setdefault(report.boot, []).append((report.result.task, report.result.attempt))
    for session in pool.sessions.values():
        attempts = by_boot.get(session.boot)
        if attempts:
            session.settled(attempts)
    pool.counters.settled += len(batch)


def _follow_up(pool: PoolState, settled: Settled) -> None:
    if settled.freed:
        pool.core.apply(KeysFreed(settled.freed), pool.now_us())
        pool.wakes.cycle.set()
    if settled.ready:
        pool.loader.add(settled.ready, pool.now_us())
        pool.wakes.cycle.set()
    if settled.timed:
        pool.loader.timer(0.05)
        pool.wakes.poll.set()
    if settled.more_dependents:
        pool.unsettled.dependents.extend(settled.more_dependents)
    if settled.ended:
        pool.on_ended(settled.ended)
    if settled.other_pools:
        pool.on_other_pools(settled.other_pools)
