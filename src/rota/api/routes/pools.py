"""Pools: groups of nodes with one leader each, and the rules that leader decides by."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import UNSET, UnsetType

from rota.api.answers import answer, filled
from rota.api.audited import audit, differences
from rota.api.described import described
from rota.api.leaders import RecallOrder, take_back
from rota.api.named_pauses import pause_named
from rota.api.requests import check_pool, existing, given, read_json
from rota.api.routes.catalogue import check_name
from rota.api.services import authorise, read_all, tell_of_rules
from rota.model.answers.catalogue import PausedPool, PoolDocument, PoolList
from rota.model.catalogue import PoolRule
from rota.model.errors import FaultList, conflict
from rota.model.isolation import ISOLATIONS
from rota.store import catalogue

router = APIRouter(prefix="/v1/pools", tags=["pools"])


class PoolChange(msgspec.Struct, forbid_unknown_fields=True):
    """Absent fields stay as they are, or have the defaults of a new pool; null: no limit."""

    elastic: bool | UnsetType = UNSET
    peak_percent: int | UnsetType = UNSET
    urgent_kept_percent: int | UnsetType = UNSET
    running_tasks: int | UnsetType | None = UNSET
    isolations: list[str] | UnsetType = UNSET
    identified_nodes: bool | UnsetType = UNSET


class PoolRequest(PoolChange, forbid_unknown_fields=True, kw_only=True):
    name: str


@router.get("")
@described(PoolList)
async def list_pools(request: Request) -> Response:
    """All pools."""
    pools = await read_all(request, catalogue.read_pools)
    return answer(PoolList(pools=[filled(PoolDocument, pool) for pool in pools]))


@router.get("/{name}")
@described(PoolDocument)
async def get_pool(request: Request, name: str) -> Response:
    """One pool, by name."""
    return answer(filled(PoolDocument, _named(await read_all(request, catalogue.read_pools), name)))


@router.post("", status_code=201)
@described(PoolDocument, body=PoolRequest)
async def add_pool(request: Request) -> Response:
    """Makes a pool. Workers can join it and tasks name it within a few seconds."""
    services, caller = await authorise(request)
    body = await read_json(request, PoolRequest)
    faults = FaultList()
    check_name(body.name, faults)
    pool = _changed(PoolRule(0, body.name), body, faults)
    async with services.database.engine() as connection, connection.transaction():
        made = await catalogue.add_pool(connection, pool)
        if made is None:
            raise conflict("pool-exists", f"there is a pool {body.name} already; choose another name")
        await audit(connection, caller, "pool.add", made.name, **differences(None, made))
    await tell_of_rules(services)
    return answer(filled(PoolDocument, made), 201)


@router.patch("/{name}")
@described(PoolDocument, body=PoolChange)
async def change_pool(request: Request, name: str) -> Response:
    """Changes the rules of a pool."""
    services, caller = await authorise(request)
    change = await read_json(request, PoolChange)
    async with services.database.engine() as connection, connection.transaction():
        before = _named(await catalogue.read_pools(connection), name)
        pool = _changed(before, change, FaultList())
        await catalogue.save_pool(connection, pool)
        await audit(connection, caller, "pool.set", name, **differences(before, pool))
    await tell_of_rules(services)
    return answer(filled(PoolDocument, pool))


@router.post("/{name}/pause")
@described(PausedPool)
async def pause_pool(request: Request, name: str) -> Response:
    """Starts no more tasks in the pool. Running tasks go on; new ones are accepted, and wait.

    What nodes have received and not begun is taken back before the answer. `may_still_start` counts the tasks of nodes
    that did not confirm it within a second.
    """
    await _check_operates(request, name)
    services, pool = await pause_named(request, "pool", name, catalogue.pause_pool, True)
    await tell_of_rules(services)
    left = await take_back(services, [pool.id], RecallOrder())
    return answer(filled(PausedPool, pool, may_still_start=left))


@router.post("/{name}/resume")
@described(PoolDocument)
async def resume_pool(request: Request, name: str) -> Response:
    """Starts tasks in the pool again."""
    await _check_operates(request, name)
    services, pool = await pause_named(request, "pool", name, catalogue.pause_pool, False)
    await tell_of_rules(services)
    return answer(filled(PoolDocument, pool))


async def _check_operates(request: Request, name: str) -> None:
    """Raises unless the caller is an operator of this pool, or of all."""
    services, caller = await authorise(request)
    if caller.pools is not None:
        async with services.database.engine() as connection:
            check_pool(caller, _named(await catalogue.read_pools(connection), name).name)


def _named(pools: list[PoolRule], name: str) -> PoolRule:
    return existing(next((pool for pool in pools if pool.name == name), None), "pool")


def _changed(pool: PoolRule, change: PoolChange, faults: FaultList) -> PoolRule:
    changed = given(change)
    for name, least, most in (
        ("peak_percent", 1, 100),
        ("urgent_kept_percent", 0, 90),
        ("running_tasks", 1, 2_000_000_000),
    ):
        value = changed.get(name)
        if value is not None and not least <= value <= most:
            faults.add(name, "out-of-range", f"it is from {least:,} to {most:,}, not {value}")
    if change.isolations is not UNSET:
        if not change.isolations or not set(change.isolations) <= set(ISOLATIONS):
            faults.add("isolations", "out-of-range", f"isolations are some of {', '.join(ISOLATIONS)}")
        changed["isolations"] = tuple(dict.fromkeys(change.isolations))
    faults.check()
    return replace(pool, **changed)
