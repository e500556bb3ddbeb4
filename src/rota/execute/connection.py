"""The control connection: find the pool's leader, register, take its orders, report to it; again and again.

The server speaks first, and its epoch is the floor below which no order is obeyed. One writer sends everything, so a
slow network gathers results into larger frames. The connection is dropped when the leader stops acknowledging
heartbeats; the fence does not depend on the connection and counts on without it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from urllib.parse import quote

import httpx
import msgspec
import structlog
import websockets
from websockets.asyncio.client import ClientConnection, connect

from rota import keepalive, tls, wire
from rota.execute.attempts.outbox import Outbox
from rota.execute.attempts.workbench import Workbench
from rota.execute.backoff import Backoff
from rota.execute.identity import Credential, HttpCredential, NoTokenYet
from rota.model.answers.problems import ProblemDocument
from rota.model.answers.workers import LeaderAddress
from rota.model.node import Closed
from rota.servers import Servers

log = structlog.get_logger()

_OPEN_SECONDS = 5.0
_ASK_SECONDS = 2.5  # who leads: a server node that is cut off from its database does not answer, another one does
_RETRY_SECONDS = 2.0  # until a leader has told its heartbeat
_LEADER_CHECKS_A_HEARTBEAT = 5  # how often to ask for another leader while ours is silent
_MISSED_HEARTBEATS = 3
_REMIND_SECONDS = 60.0  # between two lines of the log about a server that does not answer
_GATHER_SECONDS = 0.004  # between two frames of results, so that a busy node sends few large ones


class TwinError(RuntimeError):
    """Another agent has this node's name; this one must not go on."""


class Stale(Exception):
    """The leader has been replaced or no longer answers; look for another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """The agent's identity, and how it reaches servers."""

    servers: tuple[str, ...]
    credential: Credential
    pool: str
    hello: wire.Hello  # without its floor


class ControlConnection:
    def __init__(self, *, introduction: Introduction, workbench: Workbench, outbox: Outbox) -> None:
        self._me = introduction
        self._workbench = workbench
        self._outbox = outbox
        self._floor = 0
        self._database: str | None = None
        self._servers = Servers(introduction.servers)
        self._missed = 0
        self._backoff = Backoff(shortest_seconds=0.02, first_seconds=0.05, longest_seconds=_RETRY_SECONDS)
        self._refused: str | None = None  # why a server refused us last; None: no server does
        self._said: dict[str, tuple[str, float]] = {}  # by server: why it tells no leader, and when to log it again

    def why_refused(self) -> str | None:
        """Why servers refuse this agent, unless it has registered since; None: they don't."""
        return None if self._workbench.has_leader.is_set() else self._me.credential.why_refused() or self._refused

    async def run(self) -> None:
        """Runs until cancelled, or until another boot has taken this node's name."""
        auth = HttpCredential(self._me.credential)
        async with httpx.AsyncClient(auth=auth, timeout=_OPEN_SECONDS, verify=tls.trusted()) as client:
            while True:
                self._workbench.has_leader.clear()
                leader = await self._find_leader(client)
                if leader is not None and await self._serve(leader, client):
                    self._backoff.reset()
                    continue  # the server sent us to another leader: no need to wait
                if self._workbench.has_leader.is_set():
                    self._backoff.reset()
                await self._backoff.pause()

    async def _find_leader(self, client: httpx.AsyncClient) -> LeaderAddress | None:
        server = self._servers.take()
        try:
            answer = await client.get(
                f"{server}/v1/worker/leader", params={"pool": self._me.pool}, timeout=_ASK_SECONDS
            )
            if answer.status_code == 200:
                self._refused = None
                self._said.pop(server, None)
                leader = msgspec.json.decode(answer.content, type=LeaderAddress)
                fault = tls.clear_fault([leader.url])
                if fault is None:
                    return leader
                self._say(server, "the leader can't be used", fault)
                return None
            self._note_refusal(server, answer)
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            why = tls.explain(error, server) or str(error) or type(error).__name__
            self._say(server, "a server does not answer", why)
        return None

    def _say(self, server: str, event: str, why: str) -> None:
        """Logs a new reason at once and an old one every minute: servers may be away for a night."""
        said, until = self._said.get(server, ("", 0.0))
        if why != said or time.monotonic() >= until:
            self._said[server] = why, time.monotonic() + _REMIND_SECONDS
            log.info(event, server=server, why=why[:200])

    def _note_refusal(self, server: str, answer: httpx.Response) -> None:
        """Logs a refusal once: a wrong token or pool must be fixed by a person. A missing leader is no refusal."""
        try:
            why = msgspec.json.decode(answer.content, type=ProblemDocument).detail
        except msgspec.DecodeError:
            why = ""
        why = why or f"a server answered {answer.status_code}"
        if not 400 <= answer.status_code < 500:
            self._say(server, "no leader yet", why)
            return
        if why != self._refused:
            self._refused = why
            details = {"server": server, "pool": self._me.pool, "status": answer.status_code, "why": why}
            log.warning("refused; is it a worker's token, and the right pool?", **details)

    async def _serve(self, leader: LeaderAddress, client: httpx.AsyncClient) -> bool:
        """Serves one connection. True: ask for the leader again at once."""
        close: websockets.ConnectionClosed | None = None
        try:
            async with connect(
                f"ws{leader.url.removeprefix('http')}/v1/worker/control?pool={quote(self._me.pool)}",
                ssl=tls.trusted_at(leader.url),
                additional_headers=await self._headers(),
                compression=None,
                max_size=wire.MAX_FRAME_BYTES,
                ping_interval=None,
                open_timeout=_OPEN_SECONDS,
                close_timeout=1,
            ) as socket:
                keepalive.DEFAULT.apply(socket.transport.get_extra_info("socket"))
                welcome = await self._handshake(socket)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._read(socket), name="read the leader's orders")
                    group.create_task(self._write(socket), name="write to the leader")
                    group.create_task(self._beat(socket, welcome.heartbeat_seconds, client), name="heartbeat")
        except* websockets.ConnectionClosed as closed:
            close = _first(closed)
        except* websockets.InvalidStatus as refused:
            self._me.credential.refused()
            log.warning("the control connection was refused", why=str(refused.exceptions[0])[:200])
        except* (Stale, OSError, TimeoutError, NoTokenYet, websockets.WebSocketException, wire.WireError) as errors:
            why = tls.explain(errors.exceptions[0], leader.url) or str(errors.exceptions[0])
            log.warning("the control connection ended", error=why[:200])
        return close is not None and self._closed(close)

    def _closed(self, error: websockets.ConnectionClosed) -> bool:
        code = error.rcvd.code if error.rcvd else None
        reason = error.rcvd.reason if error.rcvd else ""
        log.warning("the control connection was closed", code=code, reason=reason)
        if code == wire.CLOSE_TWIN:
            raise TwinError(
                f"another agent is connected as {self._me.hello.name}; "
                "give each node a name of its own, or stop the other agent"
            )
        if code in (wire.CLOSE_BAD_PROTOCOL, wire.CLOSE_NOT_YOURS):
            self._refused = reason
        return code == wire.CLOSE_NOT_LEADER

    # ---- the handshake -------------------------------------------------------------------------------------

    async def _handshake(self, socket: ClientConnection) -> wire.Welcome:
        async with asyncio.timeout(_OPEN_SECONDS):
            welcome = wire.decode_to_agent(await socket.recv(decode=False))
            if not isinstance(welcome, wire.Welcome):
                raise Stale("the server did not begin with a welcome")
            self.accept(welcome)
            self._workbench.guard()
            sent_at = time.monotonic()
            await socket.send(wire.encode(self.hello()))
            registered = wire.decode_to_agent(await socket.recv(decode=False))
            if not isinstance(registered, wire.Registered):
                raise Stale("the server did not answer the hello")
            self._workbench.guard()
            inventory = self._workbench.inventory(registered.expected)
            await socket.send(wire.encode(inventory))
        self._workbench.trust(sent_at)
        self._outbox.start_over()
        self._workbench.has_leader.set()
        log.info("registered", pool=self._me.pool, node=registered.node, epoch=self._floor)
        return welcome

    def accept(self, welcome: wire.Welcome) -> None:
        if welcome.protocol < wire.OLDEST_PROTOCOL:
            raise Stale(f"the server speaks protocol {welcome.protocol}; this agent needs {wire.OLDEST_PROTOCOL}")
        if self._database is not None and welcome.database != self._database:
            log.error("the server has another database; everything running here is ended")
            self._workbench.forget_all()
            self._floor = 0
        if self._is_old(welcome.epoch):
            raise Stale(f"the leader's epoch {welcome.epoch} is below {self._floor}, which this node has seen")
        self._database = welcome.database
        self._floor = max(self._floor, welcome.epoch)
        self._backoff.longest_seconds = welcome.heartbeat_seconds / _LEADER_CHECKS_A_HEARTBEAT
        self._workbench.welcome(welcome)

    def _is_old(self, epoch: int) -> bool:
        """Whether the epoch is that of a replaced leader, whose orders are never obeyed."""
        return epoch < self._floor

    def hello(self) -> wire.Hello:
        return msgspec.structs.replace(self._me.hello, floor=self._floor)

    # ---- the three loops of a connection -------------------------------------------------------------------

    async def _read(self, socket: ClientConnection) -> None:
        while True:
            message = await socket.recv(decode=False)
            self._workbench.guard()  # this process may have been stopped since the last frame
            self.obey(wire.decode_to_agent(message))

    def obey(self, frame: wire.ToAgent) -> None:
        bench = self._workbench
        if isinstance(
            frame, wire.Start | wire.Stop | wire.Recall | wire.Drain | wire.Reload | wire.Alive | wire.Caps
        ) and self._is_old(frame.epoch):
            log.warning("a frame of an older epoch is refused", frame=type(frame).__name__, epoch=frame.epoch)
            return
        match frame:
            case wire.Start():
                bench.start(frame)
            case wire.Settled():
                self._outbox.settle(frame.attempts)
            case wire.Alive():
                self._missed = 0
                bench.trust(frame.sent)
            case wire.Stop():
                bench.stop(frame.attempts, frame.reason)
            case wire.Recall():
                bench.recall(frame.attempts, frame.number)
            case wire.Caps():
                bench.recap(frame.caps)
            case wire.Drain(is_over=True):
                bench.undrain()
            case wire.Drain():
                bench.drain()
            case wire.Reload():
                bench.functions.reload()  # code was deployed: children with the old one finish their calls and exit
            case _:
                log.warning("an unexpected frame is ignored", frame=type(frame).__name__)

    async def _write(self, socket: ClientConnection) -> None:
        while True:
            await self._outbox.wake.wait()
            self._outbox.wake.clear()
            while True:
                self._workbench.guard()  # before sending anything, freeze attempts past their fence
                if self._outbox.take_heartbeat():
                    await socket.send(wire.encode(self._heartbeat()))
                frame = self._outbox.take_frame()
                if frame is None:
                    break
                await socket.send(wire.encode(frame))
                await asyncio.sleep(_GATHER_SECONDS)

    def _heartbeat(self) -> wire.Heartbeat:
        why, count = self._workbench.closed_for, self._workbench.attempt_count
        is_closed, is_leaving = why is not None, why is Closed.LEAVING
        return wire.Heartbeat(
            sent=time.monotonic(),
            attempts=count,
            is_closed=is_closed,
            is_leaving=is_leaving,
            frozen=self._workbench.frozen_count,
        )

    async def _beat(self, socket: ClientConnection, heartbeat_seconds: float, client: httpx.AsyncClient) -> None:
        """Counts beats, not seconds: after a pause of this process, the leader gets its turn to answer."""
        self._missed = 0
        while self._missed < _MISSED_HEARTBEATS:
            self._missed += 1
            self._outbox.beat()
            for _ in range(_LEADER_CHECKS_A_HEARTBEAT):
                await asyncio.sleep(heartbeat_seconds / _LEADER_CHECKS_A_HEARTBEAT)
                if self._missed > 1 and await self._is_replaced(client):
                    self._missed = _MISSED_HEARTBEATS
                    break
        socket.transport.abort()  # a leader that does not answer heartbeats does not answer a close either
        raise Stale("the leader does not acknowledge heartbeats")

    async def _is_replaced(self, client: httpx.AsyncClient) -> bool:
        """Whether another leader has taken over. Asked while a heartbeat is unanswered: our fences run out."""
        try:
            async with asyncio.timeout(self._backoff.longest_seconds):
                leader = await self._find_leader(client)
        except TimeoutError:
            return False
        return leader is not None and leader.epoch > self._floor

    async def _headers(self) -> dict[str, str]:
        return {"Authorization": await self._me.credential.authorization()}


def _first(group: BaseExceptionGroup[websockets.ConnectionClosed]) -> websockets.ConnectionClosed:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
