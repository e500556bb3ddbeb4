"""A server node as an agent sees it: the leader's address, the control connection and the log connection.

It speaks the protocol and decides nothing: a test chooses what to send and reads what arrived. Every arrival wakes
`until`, so tests wait for a fact and never for a duration.
"""

from __future__ import annotations

import asyncio
import http
import json
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import websockets
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from rota import wire
from rota.model.attempt import TAIL_SEQ, Outcome
from rota.model.resources import Resources
from rota.model.task import Kind

TOKEN = "worker-token"
CAPACITY = Resources(cpu_milli=2000, memory_bytes=2**30, disk_bytes=2**30, ports=10)
SMALL = Resources(cpu_milli=100)
PATIENCE_SECONDS = 30.0

StartAgent = Callable[..., AbstractAsyncContextManager[asyncio.Event]]


@dataclass
class StubServer:
    epoch: int = 100
    database: str = "database-one"
    heartbeat_seconds: float = 0.2
    log_limit_bytes: int = 1024 * 1024
    result_limit_bytes: int = 1024 * 1024
    settle: bool = True  # acknowledge results
    acknowledge: bool = True  # acknowledge heartbeats
    store_logs: bool = True
    full: list[tuple[int, int]] = field(default_factory=list)  # attempts of which it takes only the end
    expected: list[tuple[int, int]] = field(default_factory=list)
    has_leader: bool = True
    refusal: str | None = None  # its answer to agents that ask for the leader

    hellos: list[wire.Hello] = field(default_factory=list)
    inventories: list[wire.Inventory] = field(default_factory=list)
    results: list[wire.Result] = field(default_factory=list)
    frames_of_results: int = 0
    recalled: list[tuple[int, int]] = field(default_factory=list)
    recall_numbers: list[int] = field(default_factory=list)  # of the numbered recalls that were carried out
    heartbeats: list[wire.Heartbeat] = field(default_factory=list)
    said: list[wire.ReportedProgress] = field(default_factory=list)
    chunks: list[wire.LogChunk] = field(default_factory=list)
    lookups: int = 0
    unauthorised: int = 0
    connection: ServerConnection | None = None
    log_connection: ServerConnection | None = None
    _server: Server | None = None
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    port: int = 0

    async def __aenter__(self) -> StubServer:
        self._server = await serve(
            self._connected,
            "127.0.0.1",
            self.port,
            process_request=self._answer,
            compression=None,
            max_size=wire.MAX_FRAME_BYTES,
            ping_interval=None,
            close_timeout=0.5,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # ---- what a test does ----------------------------------------------------------------------------------

    async def until(self, fact: Callable[[], object], patience_seconds: float = PATIENCE_SECONDS) -> None:
        async with asyncio.timeout(patience_seconds):
            async with self._changed:
                await self._changed.wait_for(lambda: bool(fact()))

    async def send(self, frame: wire.Frame) -> None:
        await self.until(lambda: self.connection is not None)
        assert self.connection is not None
        await self.connection.send(wire.encode(frame))

    async def start(self, *runs: wire.Run, grant: Resources = SMALL, epoch: int | None = None) -> None:
        await self.send(wire.Start(epoch=epoch or self.epoch, shapes={1: grant}, runs=list(runs)))

    async def stop(self, *tasks: int, reason: str = "cancel") -> None:
        keys = [(task, 1) for task in tasks]
        await self.send(wire.Stop(epoch=self.epoch, attempts=keys, reason=reason))

    async def result(self, task: int, attempt: int = 1) -> wire.Result:
        await self.until(lambda: self.results_of(task, attempt))
        return self.results_of(task, attempt)[0]

    def results_of(self, task: int, attempt: int = 1) -> list[wire.Result]:
        return [result for result in self.results if (result.task, result.attempt) == (task, attempt)]

    def output(self, task: int, attempt: int = 1) -> bytes:
        """All output known of an attempt, in order, checked to be without gaps."""
        chunks = self.kept(task, attempt)
        numbers = [chunk.seq for chunk in chunks if chunk.seq < TAIL_SEQ]
        assert numbers == list(range(len(numbers)))
        return b"".join(chunk.data for chunk in chunks)

    def kept(self, task: int, attempt: int = 1) -> list[wire.LogChunk]:
        """The chunks that a server has: those that newer ones replaced are deleted."""
        inline = [chunk for result in self.results_of(task, attempt)[:1] for chunk in result.log]
        sent = [chunk for chunk in self.chunks if (chunk.task, chunk.attempt) == (task, attempt)]
        by_seq: dict[int, wire.LogChunk] = {}
        for chunk in [*sent, *inline]:
            by_seq[chunk.seq] = chunk
            for stream, first, before in map(msgspec.structs.astuple, chunk.replaced):
                for seq in [seq for seq, one in by_seq.items() if one.stream == stream and first <= seq < before]:
                    del by_seq[seq]
        return [by_seq[seq] for seq in sorted(by_seq)]

    def shown(self, task: int, stream: int) -> bytes:
        """What a reader sees of one stream: `<N>` stands for N bytes that are left out."""
        text, end = b"", 0
        for chunk in self.kept(task):
            if chunk.stream == stream:
                text += b"<%d>" % (chunk.offset - end) if chunk.offset > end else b""
                text += chunk.data
                end = chunk.offset + len(chunk.data)
        return text

    async def drop(self, code: int = 1011) -> None:
        """Closes the control connection; the agent comes back by itself."""
        assert self.connection is not None
        connection, self.connection = self.connection, None
        await connection.close(code)

    # ---- what an agent sees --------------------------------------------------------------------------------

    async def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.unauthorised += 1
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "no\n")
        if not request.path.startswith("/v1/worker/leader"):
            return None
        self.lookups += 1
        async with self._changed:
            self._changed.notify_all()
        if self.refusal is not None:
            return connection.respond(http.HTTPStatus.FORBIDDEN, json.dumps({"detail": self.refusal}))
        if not self.has_leader:
            return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "no leader\n")
        return connection.respond(http.HTTPStatus.OK, json.dumps({"url": self.url, "epoch": self.epoch}))

    async def _connected(self, connection: ServerConnection) -> None:
        try:
            assert connection.request is not None
            if connection.request.path.startswith("/v1/worker/logs"):
                await self._logs(connection)
            else:
                await self._control(connection)
        except websockets.ConnectionClosed:
            pass
        finally:
            if self.connection is connection:
                self.connection = None

    async def _control(self, connection: ServerConnection) -> None:
        welcome = wire.Welcome(
            protocol=wire.PROTOCOL,
            pool="default",
            epoch=self.epoch,
            database=self.database,
            heartbeat_seconds=self.heartbeat_seconds,
            log_limit_bytes=self.log_limit_bytes,
            result_limit_bytes=self.result_limit_bytes,
        )
        await connection.send(wire.encode(welcome))
        async for message in connection:
            assert isinstance(message, bytes)
            await self._heard(connection, wire.decode_to_server(message))
            async with self._changed:
                self._changed.notify_all()

    async def _heard(self, connection: ServerConnection, frame: wire.ToServer) -> None:
        match frame:
            case wire.Hello():
                self.hellos.append(frame)
                await connection.send(wire.encode(wire.Registered(node=1, expected=self.expected)))
            case wire.Inventory():
                self.inventories.append(frame)
                self.connection = connection
            case wire.Results(results):
                self.results += results
                self.frames_of_results += 1
                if self.settle:
                    keys = [(result.task, result.attempt) for result in results]
                    await connection.send(wire.encode(wire.Settled(attempts=keys)))
            case wire.Recalled(attempts, number):
                self.recalled += [(task, attempt) for task, attempt in attempts]
                self.recall_numbers += [number] if number else []
            case wire.Heartbeat():
                self.heartbeats.append(frame)
                if self.acknowledge:
                    await connection.send(wire.encode(wire.Alive(epoch=self.epoch, sent=frame.sent)))
            case _:
                raise AssertionError(frame)

    async def _logs(self, connection: ServerConnection) -> None:
        self.log_connection = connection
        async for message in connection:
            assert isinstance(message, bytes)
            batch = wire.decode_to_server(message)
            if isinstance(batch, wire.ProgressBatch):
                self.said += batch.reports
            elif self.store_logs:
                assert isinstance(batch, wire.LogBatch)
                self.chunks += batch.chunks
                await connection.send(wire.encode(wire.LogStored(number=batch.number, full=self.full)))
            async with self._changed:
                self._changed.notify_all()


# ---- builders ----------------------------------------------------------------------------------------------


def run_of(
    task: int,
    kind: Kind,
    spec: dict[str, object],
    *,
    attempt: int = 1,
    cap_ms: int = 60_000,
    fence_ms: int = 20_000,
    name: str = "work",
) -> wire.Run:
    return wire.Run(
        task=task,
        attempt=attempt,
        tenant=1,
        kind=kind,
        name=name,
        shape=1,
        cap_ms=cap_ms,
        fence_ms=fence_ms,
        idempotency_key=f"key-{task}",
        spec=msgspec.json.encode(spec),
    )


def command(task: int, *argv: str, cap_ms: int = 60_000, fence_ms: int = 20_000, attempt: int = 1) -> wire.Run:
    spec: dict[str, object] = {"command": list(argv)}
    return run_of(task, Kind.COMMAND, spec, attempt=attempt, cap_ms=cap_ms, fence_ms=fence_ms)


def shell(task: int, text: str, cap_ms: int = 60_000, fence_ms: int = 20_000) -> wire.Run:
    return command(task, "/bin/sh", "-c", text, cap_ms=cap_ms, fence_ms=fence_ms)


def function(
    task: int,
    reference: str,
    *args: object,
    cap_ms: int = 60_000,
    fence_ms: int = 20_000,
    **kwargs: object,
) -> wire.Run:
    spec: dict[str, object] = {"function": reference, "args": list(args), "kwargs": kwargs}
    return run_of(task, Kind.FUNCTION, spec, cap_ms=cap_ms, fence_ms=fence_ms, name=reference)


def outcomes(results: list[wire.Result]) -> list[Outcome]:
    return [result.outcome for result in results]


def processes_with(marker: str) -> list[int]:
    """Processes that have `marker` among their arguments."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                arguments = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if marker.encode() in arguments:
                found.append(int(name))
    return found
