"""The server's side of an agent's control connection: welcome, register, reconcile, then read until it ends.

The server speaks first, so that an agent knows the leader's epoch before it reports anything. The agent's attempts are
compared with the database's once, here: attempts the agent never got are dispatched again, unknown ones are stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from rota import wire
from rota.decide.messages import NodeJoined
from rota.dispatch.closed_nodes import follow_report, note_goodbye
from rota.dispatch.pool import PoolState
from rota.dispatch.recalls import recall_on_arrival
from rota.dispatch.session import Channel, Session
from rota.model.attempt import Outcome
from rota.model.node import node_name_trouble
from rota.store import nodes
from rota.store.database import Database

log = structlog.get_logger()

Receive = Callable[[], Awaitable[bytes | None]]  # None: the connection is closed

HANDSHAKE_SECONDS = 10.0
GOODBYE_SECONDS = 2.0
LONGEST_HELD_SECONDS = 7 * 86_400.0  # a result that claims to be older is taken as new
# Epochs follow the database's clock. An epoch further ahead than any clock error is refused: a pool acquired above it
# would use up the numbers of the next terms.
FARTHEST_FLOOR_US = 24 * 3600 * 1_000_000


class HigherEpochSeen(Exception):
    """An agent has served a later epoch than this leader's: the pool must be acquired above it, or left."""

    def __init__(self, epoch: int) -> None:
        super().__init__(f"an agent has seen epoch {epoch}")
        self.epoch = epoch


class Refused(Exception):
    """The connection ends with this close code and sentence."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


async def serve_agent(
    pool: PoolState,
    database: Database,
    channel: Channel,
    receive: Receive,
    *,
    check_speaker: Callable[[wire.Hello], Awaitable[None]],
    on_registered: Callable[[], None],
) -> None:
    """Serves one control connection from beginning to end.

    `check_speaker` raises Refused unless the agent may speak for that node. `on_registered` refreshes caches of the
    nodes there are.
    """
    await channel.send_bytes(wire.encode(welcome(pool)))
    hello = check_hello(pool, await _next(receive))
    await check_speaker(hello)
    session = await register(pool, database, channel, hello)
    on_registered()
    writer = asyncio.create_task(session.write(), name=f"session-writer-{session.name}")
    reader = asyncio.create_task(_read(pool, session, receive), name=f"session-reader-{session.name}")
    closer = asyncio.create_task(_closed_by_us(session), name=f"session-closer-{session.name}")
    try:
        await asyncio.wait({writer, reader, closer}, return_when=asyncio.FIRST_COMPLETED)
        if reader.done():
            reader.result()
    finally:
        pool.leave(session)
        note_goodbye(pool, session)
        for task in (writer, reader, closer):
            task.cancel()
        await asyncio.gather(writer, reader, closer, return_exceptions=True)


async def _closed_by_us(session: Session) -> None:
    """Ends shortly after the session was closed: a peer that reads nothing would hold up the goodbye for ever."""
    await session.closing.wait()
    await asyncio.sleep(GOODBYE_SECONDS)


def welcome(pool: PoolState) -> wire.Welcome:
    settings = pool.settings
    return wire.Welcome(
        wire.PROTOCOL,
        pool.name,
        pool.lease.epoch,
        pool.database_identity,
        settings.timings.heartbeat_seconds,
        settings.log_limit_bytes,
        settings.result_limit_bytes,
    )


def check_hello(pool: PoolState, frame: wire.ToServer) -> wire.Hello:
    """The agent's introduction, if this leader may serve it."""
    if not isinstance(frame, wire.Hello):
        raise Refused(wire.CLOSE_TWIN, "a Hello was expected first")
    if not wire.OLDEST_PROTOCOL <= frame.protocol <= wire.PROTOCOL:
        supported = f"{wire.OLDEST_PROTOCOL} to {wire.PROTOCOL}"
        raise Refused(wire.CLOSE_BAD_PROTOCOL, f"protocol {frame.protocol} is not one of {supported}; upgrade")
    trouble = node_name_trouble(frame.name)
    if trouble is not None:
        raise Refused(wire.CLOSE_BAD_PROTOCOL, trouble)
    if frame.floor > pool.now_us() + FARTHEST_FLOOR_US:
        raise Refused(wire.CLOSE_BAD_PROTOCOL, f"epoch {frame.floor} can't have been seen: it is far ahead")
    if frame.floor > pool.lease.epoch:
        raise HigherEpochSeen(frame.floor)
    return frame


async def register(pool: PoolState, database: Database, channel: Channel, hello: wire.Hello) -> Session:
    async with database.engine() as connection:
        twin = await nodes.find_node(connection, pool.id, hello.name)
        refuse_twin(pool, twin, hello)
        node, draining = await nodes.register_node(
            connection,
            pool=pool.id,
            name=hello.name,
            boot=hello.boot,
            capacity=hello.capacity,
            labels=hello.labels,
            capabilities=hello.capabilities,
            version=hello.version,
        )
    return enter(pool, channel, hello, node=node, draining=draining)


def refuse_twin(pool: PoolState, node: int | None, hello: wire.Hello) -> None:
    old = pool.sessions.get(node) if node is not None else None
    if old is not None and old.boot != hello.boot and not old.closed.is_set():
        raise Refused(wire.CLOSE_TWIN, f"a node named {hello.name!r} is connected already; use --name")


def enter(pool: PoolState, channel: Channel, hello: wire.Hello, *, node: int, draining: bool) -> Session:
    """Takes a registered node into the pool. Never waits: no start may be sent between the list of expected attempts
    and the session's first frame.
    """
    if not pool.lease.valid():  # a registered agent is trusted for a while, and only a leader may grant that
        raise Refused(wire.CLOSE_NOT_LEADER, "this node no longer leads the pool")
    old = pool.sessions.get(node)
    session = Session(channel, hello, node=node, epoch=pool.lease.epoch, clock=pool.clock)
    if old is not None:
        old.close(wire.CLOSE_TWIN if old.boot != hello.boot else 1001, "replaced by a newer connection")
    expected = []
    for attempt in list(pool.attempts.values()):
        if attempt.node == node and not attempt.reported:
            if attempt.boot == hello.boot:
                expected.append((attempt.task, attempt.attempt))
            else:
                pool.give_up(attempt, Outcome.LOST, "its node restarted")
    pool.sessions[node] = session
    pool.names[node] = hello.name
    session.send(wire.Registered(node, expected))
    if draining:
        session.draining = True
        session.send(wire.Drain(pool.lease.epoch))
    pool.core.apply(NodeJoined(node, hello.capacity, hello.labels, draining), pool.now_us())
    pool.heard_at[node] = pool.clock()
    pool.wakes.cycle.set()
    log.info("node.joined", pool=pool.name, node=hello.name, boot=hello.boot, expected=len(expected))
    return session


async def _read(pool: PoolState, session: Session, receive: Receive) -> None:
    while (data := await receive()) is not None:
        listen(pool, session, _decode(data))


def listen(pool: PoolState, session: Session, frame: wire.ToServer) -> None:
    """Handles one frame of a registered agent."""
    session.heard_at = pool.clock()
    match frame:
        case wire.Results(results, sent):
            for result in results:
                own = _without_foreign_output(result)
                pool.report(own, session.boot, node=session.node, held_us=_held_us(result, sent))
        case wire.Heartbeat(sent):
            follow_report(pool, session, frame.closed_for)
            session.frozen = frame.frozen
            # Only a valid leader acknowledges: without an acknowledgement the agent must expect to be given up.
            if pool.lease.valid():
                session.send(wire.Alive(pool.lease.epoch, sent))
        case wire.Recalled(attempts, number):
            for task, attempt in attempts:
                _give_back(pool, session, task, attempt, Outcome.RECALLED)
            session.recalled = max(session.recalled, number)
        case wire.Inventory(present, unknown, frozen):
            if frozen:
                pool.counters.thawed += len(frozen)
                log.info("node.thawed", pool=pool.name, node=session.name, attempts=len(frozen))
            _reconcile(pool, session, present, unknown)
        case _:
            raise Refused(wire.CLOSE_TWIN, f"{type(frame).__name__} is not for this connection")


def _without_foreign_output(result: wire.Result) -> wire.Result:
    """A result brings output of its own attempt only."""
    own = [chunk for chunk in result.log if (chunk.task, chunk.attempt) == (result.task, result.attempt)]
    return result if len(own) == len(result.log) else msgspec.structs.replace(result, log=own)


def _held_us(result: wire.Result, sent: float) -> int:
    """How long the agent had to keep the result, until it had a connection."""
    held = sent - result.reported_at if result.reported_at else 0.0
    return int(held * 1e6) if 0 < held < LONGEST_HELD_SECONDS else 0


def _reconcile(
    pool: PoolState, session: Session, present: list[tuple[int, int]], unknown: list[tuple[int, int]]
) -> None:
    for task, attempt in unknown:
        _give_back(pool, session, task, attempt, Outcome.DISRUPTED)
    strangers = [key for key in present if key[0] not in pool.attempts or pool.attempts[key[0]].attempt != key[1]]
    if strangers:
        session.send(wire.Stop(pool.lease.epoch, strangers, "cancel"))
    recall_on_arrival(pool, session)


def _give_back(pool: PoolState, session: Session, task: int, attempt: int, outcome: Outcome) -> None:
    authorised = pool.attempts.get(task)
    if authorised is not None and authorised.attempt == attempt and authorised.boot == session.boot:
        pool.give_up(authorised, outcome, "its node never started it")


async def _next(receive: Receive) -> wire.ToServer:
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            data = await receive()
    except TimeoutError:
        raise Refused(wire.CLOSE_BAD_PROTOCOL, "no Hello in time") from None
    if data is None:
        raise Refused(1000, "closed during the handshake")
    return _decode(data)


def _decode(data: bytes) -> wire.ToServer:
    try:
        return wire.decode_to_server(data)
    except wire.WireError as error:
        raise Refused(wire.CLOSE_NOT_UNDERSTOOD, f"not a frame: {error}"[:120]) from error
