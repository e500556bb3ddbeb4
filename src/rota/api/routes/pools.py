"""Pools: groups of nodes with one leader each, and the rules that leader decides by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import UNSET, UnsetType

from rota.api.answers import answer, filled
from rota.api.audited import audit, pause_named
from rota.api.described import described, read_query
from rota.api.requests import read_json
from rota.api.routes.catalogue import check_name
from rota.api.services import authorise
from rota.model.answers.catalogue import PoolDocument, PoolList
from rota.model.catalogue import PoolRule
from rota.model.errors import FaultList, conflict, invalid, not_found
from rota.model.isolation import ISOLATIONS
from rota.model.tenant import Scope
from rota.store import catalogue
from rota.store.database import AnyConnection

router = APIRouter(prefix="/v1/pools", tags=["pools"])

_LIMIT = 64 * 1024


class PoolChange(msgspec.Struct, forbid_unknown_fields=True):
    """Absent fields stay as they are, or have the defaults of a new pool; null: no limit."""

    elastic: bool | UnsetType = UNSET
    peak_percent: int | UnsetType = UNSET
    urgent_kept_percent: int | UnsetType = UNSET
    running_tasks: int | UnsetType | None = UNSET
    isolations: list[str] | UnsetType = UNSET


class PoolRequest(PoolChange, forbid_unknown_fields=True, kw_only=True):
    name: str


@router.get("")
@described(PoolList)
async def list_pools(request: Request) -> Response:
    """All pools."""
    services, _ = await authorise(request, Scope.READ)
    read_query(request)
    async with services.database.engine() as connection:
        pools = await catalogue.read_pools(connection)
    return answer(PoolList(pools=[filled(PoolDocument, pool) for pool in pools]))


@router.get("/{name}")
@described(PoolDocument)
async def get_pool(request: Request, name: str) -> Response:
    """One pool, by name."""
    services, _ = await authorise(request, Scope.READ)
    read_query(request)
    async with services.database.engine() as connection:
        return answer(filled(PoolDocument, await _pool(connection, name)))


@router.post("", status_code=201)
@described(PoolDocument, body=PoolRequest)
async def add_pool(request: Request) -> Response:
    """Makes a pool. Workers can join it and tasks name it within a few seconds."""
    services, caller = await authorise(request, Scope.ADMIN)
    body = await read_json(request, PoolRequest, limit=_LIMIT)
    faults = FaultList()
    check_name(body.name, faults)
    pool = _changed(PoolRule(0, body.name), body, faults)
    async with services.database.engine() as connection:
        made = await catalogue.add_pool(connection, pool)
        if made is None:
            raise conflict("pool-exists", f"there is a pool {body.name} already")
        await audit(connection, caller, "pool.add", made.name)
    return answer(filled(PoolDocument, made), 201)


@router.patch("/{name}")
@described(PoolDocument, body=PoolChange)
async def change_pool(request: Request, name: str) -> Response:
    """Changes the rules of a pool."""
    services, caller = await authorise(request, Scope.ADMIN)
    change = await read_json(request, PoolChange, limit=_LIMIT)
    async with services.database.engine() as connection:
        pool = _changed(await _pool(connection, name), change, FaultList())
        await catalogue.save_pool(connection, pool)
        await audit(connection, caller, "pool.set", name)
    return answer(filled(PoolDocument, pool))


@router.post("/{name}/pause")
@described(PoolDocument)
async def pause_pool(request: Request, name: str) -> Response:
    """Starts no more tasks in the pool. Running tasks go on; new ones are accepted, and wait."""
    return await _pause(request, name, paused=True)


@router.post("/{name}/resume")
@described(PoolDocument)
async def resume_pool(request: Request, name: str) -> Response:
    """Starts tasks in the pool again."""
    return await _pause(request, name, paused=False)


async def _pause(request: Request, name: str, *, paused: bool) -> Response:
    services, pool = await pause_named(request, Scope.OPERATE, "pool", name, catalogue.pause_pool, paused)
    services.leadership.poll_soon([pool.id])
    return answer(filled(PoolDocument, pool))


async def _pool(connection: AnyConnection, name: str) -> PoolRule:
    found = next((pool for pool in await catalogue.read_pools(connection) if pool.name == name), None)
    if found is None:
        raise not_found("pool")
    return found


def _changed(pool: PoolRule, change: PoolChange, faults: FaultList) -> PoolRule:
    changed: dict[str, Any] = {}
    for name, least, most in (
        ("peak_percent", 1, 100),
        ("urgent_kept_percent", 0, 90),
        ("running_tasks", 1, 2_000_000_000),
    ):
        value = getattr(change, name)
        if value is UNSET:
            continue
        if value is not None and not least <= value <= most:
            faults.add(name, "out-of-range", f"{value} is not from {least} to {most:,}")
        changed[name] = value
    if change.elastic is not UNSET:
        changed["elastic"] = change.elastic
    if change.isolations is not UNSET:
        if not change.isolations or not set(change.isolations) <= set(ISOLATIONS):
            faults.add("isolations", "out-of-range", f"isolations are some of {', '.join(ISOLATIONS)}")
        changed["isolations"] = tuple(dict.fromkeys(change.isolations))
    if faults.faults:
        raise invalid(faults.faults)
    return replace(pool, **changed)
