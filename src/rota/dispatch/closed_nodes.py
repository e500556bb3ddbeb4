"""Nodes that take no new work, and why: operators write it into rows, agents report it with their heartbeats.

The core learns it at once. An agent's report also goes into its node's row with the next poll, so that every server
node can show it. A report that is lost comes again with the first heartbeat of the next connection.
"""

from __future__ import annotations

import structlog

from rota.decide.messages import NodeClosed, NodeOpened
from rota.dispatch.pool import PoolState
from rota.dispatch.session import Session
from rota.model.node import Closed
from rota.store import nodes
from rota.store.database import AnyConnection
from rota.store.nodes import NodeReport

log = structlog.get_logger()


def follow_report(pool: PoolState, session: Session, reported_closed: Closed | None) -> None:
    """Takes in whether the agent accepts work, according to its heartbeat. Only a change counts."""
    if reported_closed is session.reported_closed:
        return
    session.reported_closed = reported_closed
    if reported_closed is None:
        log.info("node.open", pool=pool.name, node=session.name)
    else:
        log.warning("node.closed", pool=pool.name, node=session.name, why=reported_closed.value)
    tell_core(pool, session)
    _save_soon(pool, NodeReport(session.node, session.boot, reported_closed))


def note_goodbye(pool: PoolState, session: Session) -> None:
    """The connection of a node ended. A node that was leaving and has no attempt of this pool is not coming back."""
    if session.reported_closed is not Closed.LEAVING or session.node in pool.sessions:
        return
    if any(attempt.node == session.node and not attempt.reported for attempt in pool.attempts.values()):
        return  # it was cut off, or died, before its attempts ended
    log.info("node.left", pool=pool.name, node=session.name)
    _save_soon(pool, NodeReport(session.node, session.boot, session.reported_closed, has_left=True))


def _save_soon(pool: PoolState, report: NodeReport) -> None:
    pool.polled.unsaved_reports[report.node] = report
    pool.wakes.poll_soon()


def tell_core(pool: PoolState, session: Session) -> None:
    why = session.closed_for
    pool.core.apply(NodeOpened(session.node) if why is None else NodeClosed(session.node, why), pool.now_us())
    pool.wakes.cycle.set()


async def save_reports(pool: PoolState, connection: AnyConnection) -> None:
    """Reports are kept until they are saved: with the database away, the next poll saves them."""
    unsaved = pool.polled.unsaved_reports
    reports = list(unsaved.values())
    if not reports:
        return
    await nodes.save_reports(connection, reports)
    for report in reports:
        if unsaved.get(report.node) is report:
            del unsaved[report.node]
