"""Agents: the address of the leader, the control connection to it, and the log connection to any server node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import asyncpg
from fastapi import APIRouter, Request, Response, WebSocket
from starlette.websockets import WebSocketDisconnect

from rota import wire
from rota.admit.authenticate import unauthorized
from rota.api.answers import answer
from rota.api.audit_sampling import note_refused
from rota.api.described import TEXT, Parameter, described, read_query
from rota.api.requests import check_scope
from rota.api.services import Services, authorise
from rota.dispatch.agent_connection import HigherEpochSeen, Refused, serve_agent
from rota.model.accounts.permissions import Scope
from rota.model.answers.workers import LeaderAddress
from rota.model.errors import Fault, Problem, invalid, unavailable
from rota.model.tenant import Caller
from rota.store import node_keys
from rota.store.logs import MOST_ROW_BYTES, LogCounter
from rota.store.node_keys import Attempt, OwnAttempts
from rota.store.nodes import Pool
from rota.store.progress import store_progress

router = APIRouter(prefix="/v1/worker", tags=["workers"])

_POLICY = 1008  # the standard's code for a connection that is not allowed


@router.get("/leader")
@described(LeaderAddress, query=(Parameter("pool", TEXT, "The name of the pool; `default` by default."),))
async def find_leader(request: Request) -> Response:
    """The server node that leads a pool now."""
    services, caller = await authorise(request)
    name = read_query(request).get("pool", "default")
    _check_own_pool(caller, name)
    pool = services.membership.pools.get(name)
    if pool is None:
        await services.membership.refresh()
        pool = services.membership.pools.get(name)
    if pool is None:
        raise invalid([Fault("/pool", "unknown-pool", f"there is no pool {name[:40]!r}")])
    if caller.node is None:
        await _check_takes_tokens(services, pool)
    here = services.leadership.leaders.get(pool.id)
    if here is not None and here.ready.is_set():
        return answer(LeaderAddress(services.settings.advertised_url, here.pool.lease.epoch))
    await services.membership.refresh()
    leader = services.membership.leaders.get(pool.id)
    if leader is None or leader.holder == services.membership.holder:
        raise unavailable(f"pool {name} has no leader right now; try again")
    return answer(LeaderAddress(leader.url, leader.epoch))


@router.websocket("/control")
async def control(websocket: WebSocket) -> None:
    services: Services = websocket.app.state.services
    caller = await _admitted(websocket, services)
    if caller is None:
        return
    name = websocket.query_params.get("pool", "default")
    try:
        _check_own_pool(caller, name)
    except Problem as problem:
        note_refused(services.audit_notes, "node.connect", f"{name[:40]}/?", problem.detail, caller)
        await _deny(websocket, problem)
        return
    pool = services.membership.pools.get(name)
    leader = services.leadership.leaders.get(pool.id) if pool is not None else None
    await websocket.accept()
    if leader is None or not leader.ready.is_set():
        await websocket.close(wire.CLOSE_NOT_LEADER, "this node does not lead the pool")
        return
    code, reason = 1000, ""
    try:
        with ExitStack() as named:
            async with _until_token_ends(websocket, services, caller) as over:

                async def check_speaker(hello: wire.Hello) -> None:
                    await _check_speaker(services, caller, leader.pool.id, hello)
                    if caller.node is None:
                        named.enter_context(services.open_connections.speaking_for(leader.pool.id, hello.name, over))

                await serve_agent(
                    leader.pool,
                    services.database,
                    websocket,
                    lambda: _receive(websocket),
                    check_speaker=check_speaker,
                    on_registered=services.facts.hint,
                )
        return
    except Refused as refusal:
        code, reason = refusal.code, refusal.reason
    except HigherEpochSeen as seen:
        services.leadership.reacquire_above(leader.pool.id, seen.epoch)
        code, reason = wire.CLOSE_NOT_LEADER, "a later epoch was seen; acquiring above it"
    except Problem as problem:
        code, reason = 1013, problem.detail
    except (WebSocketDisconnect, RuntimeError):
        return  # the agent is gone
    await _close(websocket, code, reason)


@router.websocket("/logs")
async def logs(websocket: WebSocket) -> None:
    """Receives chunks of output, acknowledged after they are stored, and progress, which is not acknowledged."""
    services: Services = websocket.app.state.services
    caller = await _admitted(websocket, services)
    if caller is None:
        return
    await websocket.accept()
    async with _until_token_ends(websocket, services, caller):
        await _store_logs(websocket, services, caller)


async def _store_logs(websocket: WebSocket, services: Services, caller: Caller) -> None:
    counter = LogCounter(services.settings.log_inline_bytes)
    own = OwnAttempts(caller.node)
    identity = None if caller.node is None else caller.node.id
    try:
        while (data := await _receive(websocket)) is not None:
            frame = wire.decode_to_server(data)
            if not isinstance(frame, wire.LogBatch | wire.ProgressBatch):
                await _close(websocket, wire.CLOSE_TWIN, "only logs and progress go here")
                return
            try:
                async with services.database.engine() as connection:
                    if isinstance(frame, wire.ProgressBatch):
                        await store_progress(connection, frame.reports, identity=identity)
                        continue
                    foreign = await own.foreign(connection, {(chunk.task, chunk.attempt) for chunk in frame.chunks})
                    chunks = [chunk for chunk in frame.chunks if (chunk.task, chunk.attempt) not in foreign]
                    crowded = await counter.store(connection, chunks) if chunks else set()
            except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
                raise Refused(wire.CLOSE_NOT_UNDERSTOOD, "a chunk names no possible task") from error
            if foreign:
                _note_foreign(services, caller, foreign)
            # An attempt that writes faster than its output moves waits here, so that rows do not pile up.
            full = [attempt for attempt in crowded if await services.move_log(attempt) > MOST_ROW_BYTES]
            await websocket.send_bytes(wire.encode(wire.LogStored(frame.number, full)))
    except wire.WireError as error:
        await _close(websocket, wire.CLOSE_NOT_UNDERSTOOD, str(error)[:120])
    except Refused as refusal:
        await _close(websocket, refusal.code, refusal.reason)
    except Problem as problem:
        await _close(websocket, 1013, problem.detail)
    except (WebSocketDisconnect, RuntimeError):
        return


@asynccontextmanager
async def _until_token_ends(websocket: WebSocket, services: Services, caller: Caller) -> AsyncIterator[asyncio.Event]:
    """Closes the connection as soon as its token is revoked or has expired, or its node's identity is gone."""
    with services.open_connections.opened(caller) as over:

        async def close() -> None:
            await over.wait()
            await _close(websocket, _POLICY, "the token does not hold any more")

        closing = asyncio.create_task(close(), name="token-ends")
        try:
            yield over
        finally:
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)


async def _admitted(websocket: WebSocket, services: Services) -> Caller | None:
    """The caller, if it has a worker's token; else answers 401 before the upgrade."""
    try:
        address = websocket.client.host if websocket.client else None
        caller = await services.authenticator.caller(websocket.headers.get("authorization"), address=address)
        check_scope(caller, Scope.WORK)
        if not caller.restrictions.allows_address(address):
            raise unauthorized()
    except Problem as problem:
        await _deny(websocket, problem)
        return None
    return caller


async def _deny(websocket: WebSocket, problem: Problem) -> None:
    await websocket.send_denial_response(Response(problem.detail, status_code=problem.status, media_type="text/plain"))


# ---- for whom a sender speaks ---------------------------------------------------------------------------------------


def _check_own_pool(caller: Caller, pool: str) -> None:
    if caller.node is not None and caller.node.pool != pool:
        detail = f"node {caller.node.name} is of pool {caller.node.pool}, not of {pool[:40]!r}"
        raise Problem("wrong-pool", status=403, title="Forbidden", detail=detail)


async def _check_takes_tokens(services: Services, pool: Pool) -> None:
    async with services.database.engine() as connection:
        rule = await node_keys.needs_identity(connection, pool.id, "")
    if rule is not None:
        raise Problem("identity-needed", status=403, title="Forbidden", detail=_by_pool(pool.name))


def _by_pool(pool: str) -> str:
    return f"pool {pool} takes no worker's tokens: join with a join token (rota worker-key add --pool {pool})"


async def _check_speaker(services: Services, caller: Caller, pool: int, hello: wire.Hello) -> None:
    """Raises Refused unless the agent may register as the node that it names."""
    why = ""
    own = caller.node
    if own is not None:
        if (pool, hello.name, hello.boot) != (own.pool_id, own.name, own.boot):
            why = f"the key of node {own.name} does not speak for {hello.name}, or for another boot"
    else:
        async with services.database.engine() as connection:
            rule = await node_keys.needs_identity(connection, pool, hello.name)
        if rule == "pool":
            why = "this pool takes no worker's tokens: join with a join token"
        elif rule == "node":
            why = f"node {hello.name} has a key: start it with its data folder, or use --name"
    if why:
        note_refused(services.audit_notes, "node.connect", hello.name, why, caller)
        raise Refused(wire.CLOSE_NOT_YOURS, why)


def _note_foreign(services: Services, caller: Caller, foreign: set[Attempt]) -> None:
    task, attempt = min(foreign)
    why = f"output for attempt {attempt} of task {task}, which did not run there, and {len(foreign) - 1} others"
    note_refused(services.audit_notes, "node.log", caller.user, why, caller)


async def _receive(websocket: WebSocket) -> bytes | None:
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        return None
    data = message.get("bytes")
    if data is None:
        raise Refused(wire.CLOSE_NOT_UNDERSTOOD, "frames are binary")
    return bytes(data)


async def _close(websocket: WebSocket, code: int, reason: str) -> None:
    try:
        await websocket.close(code, reason[:120])
    except RuntimeError:
        return  # closed by the other side first
