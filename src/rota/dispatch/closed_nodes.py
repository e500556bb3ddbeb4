"""Which nodes take nothing new, and why: operators write it into rows, agents say it with their heartbeats.

The core hears of it at once. What an agent says also goes into its node's row, with the next look at the database, so
that every server node can tell it to people; a word that is lost on the way is said again with the next heartbeat of
the next connection.
"""

from __future__ import annotations

import structlog

from rota.decide.messages import NodeClosed, NodeOpened
from rota.dispatch.pool import PoolState
from rota.dispatch.session import Session
from rota.model.node import Closed
from rota.store import nodes
from rota.store.database import AnyConnection
from rota.store.nodes import NodeWord

log = structlog.get_logger()


def follow_word(pool: PoolState, session: Session, says: Closed | None) -> None:
    """What a heartbeat says of whether work is taken. Only news count."""
    if says is session.says:
        return
    session.says = says
    if says is None:
        log.info("node.open", pool=pool.name, node=session.name)
    else:
        log.warning("node.closed", pool=pool.name, node=session.name, why=says.value)
    tell_core(pool, session)
    _say(pool, NodeWord(session.node, session.boot, says))


def note_goodbye(pool: PoolState, session: Session) -> None:
    """The connection of a node is over. One that was about to leave, and has nothing of ours, is not coming back."""
    if session.says is not Closed.LEAVING or session.node in pool.sessions:
        return
    if any(one.node == session.node and not one.reported for one in pool.attempts.values()):
        return  # it was cut off, or died, before it was done
    log.info("node.left", pool=pool.name, node=session.name)
    _say(pool, NodeWord(session.node, session.boot, session.says, has_left=True))


def _say(pool: PoolState, word: NodeWord) -> None:
    pool.words[word.node] = word
    pool.look_hinted = True
    pool.poll_wake.set()


def tell_core(pool: PoolState, session: Session) -> None:
    why = session.closed_for
    pool.core.apply(NodeOpened(session.node) if why is None else NodeClosed(session.node, why), pool.now_us())
    pool.cycle_wake.set()


async def save_words(pool: PoolState, connection: AnyConnection) -> None:
    """Kept until they are saved: with the database away, they are there at the next look."""
    words = list(pool.words.values())
    if not words:
        return
    await nodes.save_words(connection, words)
    for word in words:
        if pool.words.get(word.node) is word:
            del pool.words[word.node]
