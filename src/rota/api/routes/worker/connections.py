"""Agents: the address of the leader, the control connection to it, and the log connection to any server node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from fastapi import APIRouter, Request, Response, WebSocket
from starlette.websockets import WebSocketDisconnect

from rota import wire
from rota.admit.authenticate import unauthorized
from rota.api.answers import answer
from rota.api.described import TEXT, Parameter, described, read_query
from rota.api.requests import check_scope
from rota.api.services import Services, authorise
from rota.dispatch.agent_connection import HigherEpochSeen, Refused, serve_agent
from rota.model.accounts.permissions import Scope
from rota.model.answers.workers import LeaderAddress
from rota.model.errors import Fault, Problem, invalid, unavailable
from rota.model.tenant import Caller
from rota.store.logs import MOST_ROW_BYTES, LogCounter
from rota.store.progress import store_progress

router = APIRouter(prefix="/v1/worker", tags=["workers"])

_POLICY = 1008  # the standard's code for a connection that is not allowed


@router.get("/leader")
@described(LeaderAddress, query=(Parameter("pool", TEXT, "The name of the pool; `default` by default."),))
async def find_leader(request: Request) -> Response:
    """The server node that leads a pool now."""
    services, _ = await authorise(request)
    name = read_query(request).get("pool", "default")
    pool = services.membership.pools.get(name)
    if pool is None:
        await services.membership.refresh()
        pool = services.membership.pools.get(name)
    if pool is None:
        raise invalid([Fault("/pool", "unknown-pool", f"there is no pool {name[:40]!r}")])
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
    pool = services.membership.pools.get(websocket.query_params.get("pool", "default"))
    leader = services.leadership.leaders.get(pool.id) if pool is not None else None
    await websocket.accept()
    if leader is None or not leader.ready.is_set():
        await websocket.close(wire.CLOSE_NOT_LEADER, "this node does not lead the pool")
        return
    code, reason = 1000, ""
    try:
        async with _until_token_ends(websocket, services, caller):
            await serve_agent(
                leader.pool, services.database, websocket, lambda: _receive(websocket), services.facts.hint
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
        await _store_logs(websocket, services)


async def _store_logs(websocket: WebSocket, services: Services) -> None:
    counter = LogCounter(services.settings.log_inline_bytes)
    try:
        while (data := await _receive(websocket)) is not None:
            frame = wire.decode_to_server(data)
            if not isinstance(frame, wire.LogBatch | wire.ProgressBatch):
                await _close(websocket, wire.CLOSE_TWIN, "only logs and progress go here")
                return
            try:
                async with services.database.engine() as connection:
                    if isinstance(frame, wire.ProgressBatch):
                        await store_progress(connection, frame.reports)
                        continue
                    crowded = await counter.store(connection, frame.chunks)
            except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
                raise Refused(wire.CLOSE_NOT_UNDERSTOOD, "a chunk names no possible task") from error
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
async def _until_token_ends(websocket: WebSocket, services: Services, caller: Caller) -> AsyncIterator[None]:
    """Closes the connection as soon as its token is revoked or has expired."""
    with services.open_connections.opened(caller) as over:

        async def close() -> None:
            await over.wait()
            await _close(websocket, _POLICY, "the token does not hold any more")

        closing = asyncio.create_task(close(), name="token-ends")
        try:
            yield
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
        await websocket.send_denial_response(
            Response(problem.detail, status_code=problem.status, media_type="text/plain")
        )
        return None
    return caller


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
