"""Tiers, categories and lanes. All users read them, administrators change them, and changes are audited.

Server nodes read them every second; submitted tasks do not change with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import UNSET, UnsetType

from rota.admit.judge.fields import LONGEST_TOLERANCE_MS
from rota.api.answers import answer, filled
from rota.api.audited import audit, differences
from rota.api.described import described
from rota.api.requests import existing, given, read_json
from rota.api.services import authorise, read_all, tell_of_rules
from rota.model.answers.catalogue import CategoryDocument, CategoryList, LaneDocument, LaneList, TierDocument, TierList
from rota.model.catalogue import Category, LaneRule, Tier
from rota.model.errors import Fault, FaultList, conflict, invalid, not_found
from rota.model.isolation import ISOLATIONS
from rota.model.request.needs import MOST_GPUS
from rota.model.request.rules import amount_of
from rota.model.units import bytes_of, count_of, cpu_milli_of, kbit_of, milliseconds_of
from rota.store import catalogue

router = APIRouter(prefix="/v1", tags=["catalogue"])

DEFAULT_TIER = "basic"
URGENT = "urgent"
MOST_NUMBER = 999
_NAME = re.compile(r"^[a-z][a-z0-9-]{0,39}\Z", re.ASCII)
_YEAR_MS = 366 * 86_400_000
_DISK_BYTES = 1_000_000_000  # of a new tier that does not say how much disk space it grants


class TierChange(msgspec.Struct, forbid_unknown_fields=True):
    """Absent fields stay as they are. A new tier must have cpu and memory; its disk is 1G by default, the rest 0."""

    cpu: int | float | str | UnsetType = UNSET
    memory: int | str | UnsetType = UNSET
    disk: int | str | UnsetType = UNSET
    iops: int | str | UnsetType = UNSET
    gpus: int | UnsetType = UNSET
    bandwidth: int | str | UnsetType = UNSET


class CategoryChange(msgspec.Struct, forbid_unknown_fields=True):
    """Absent fields stay as they are; null: the category sets no default."""

    tolerance: int | float | str | UnsetType | None = UNSET
    lane: str | UnsetType | None = UNSET
    cap: int | float | str | UnsetType | None = UNSET
    isolation: str | UnsetType | None = UNSET


class LaneRequest(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    number: int | None = None  # the next free one by default
    level: int = 1
    gated: bool = False
    promotes: bool = True


class LaneChange(msgspec.Struct, forbid_unknown_fields=True):
    level: int | UnsetType = UNSET
    gated: bool | UnsetType = UNSET
    promotes: bool | UnsetType = UNSET


# ---- tiers ---------------------------------------------------------------------------------------------------------


@router.get("/tiers")
@described(TierList)
async def list_tiers(request: Request) -> Response:
    """All tiers."""
    tiers = await read_all(request, catalogue.read_tiers)
    return answer(TierList(tiers=[tier_of(tier) for tier in tiers]))


@router.put("/tiers/{name}")
@described(TierDocument, also={201: (TierDocument, "The tier is new.")}, body=TierChange)
async def set_tier(request: Request, name: str) -> Response:
    """Makes a tier, or changes it for tasks submitted from now on."""
    services, caller = await authorise(request)
    change = await read_json(request, TierChange)
    check_name(name)
    async with services.database.engine() as connection, connection.transaction():
        known = next((tier for tier in await catalogue.read_tiers(connection) if tier.name == name), None)
        tier = _changed_tier(name, known, change)
        await catalogue.save_tier(connection, tier)
        await audit(connection, caller, "tier.set", name, **differences(known, tier))
    await tell_of_rules(services)
    return answer(tier_of(tier), 201 if known is None else 200)


def _changed_tier(name: str, known: Tier | None, change: TierChange) -> Tier:
    faults = FaultList()
    changed = given(change)
    rules: tuple[tuple[str, str, Callable[[Any], int], int, int, str], ...] = (
        ("cpu", "cpu_milli", cpu_milli_of, 1, 10_000_000, "from 0.001 to 10,000 cores"),
        ("memory", "memory_bytes", bytes_of, 1_000_000, 2**50, "from 1M to 1P"),
        ("disk", "disk_bytes", bytes_of, 0, 2**55, "from 0 to 32P"),
        ("iops", "iops", count_of, 0, 10**9, "from 0 to 1,000,000,000"),
        ("gpus", "gpus", int, 0, MOST_GPUS, f"from 0 to {MOST_GPUS}"),
        ("bandwidth", "bandwidth_kbit", kbit_of, 0, 10**10, "from 0 to 10T bits per second"),
    )
    for field, column, convert, least, most, words in rules:
        if field in changed:
            changed[column] = amount_of(field, changed.pop(field), convert, least, most, words, faults)
        elif known is None and field in ("cpu", "memory"):
            faults.add(field, "missing-field", f"a new tier must say how much {field} it has")
    faults.check()
    return replace(known or Tier(name, 0, 0, _DISK_BYTES), **changed)


@router.delete("/tiers/{name}", status_code=204)
@described(None)
async def remove_tier(request: Request, name: str) -> Response:
    """Removes a tier, unless a plan allows it or it is the default tier."""
    services, caller = await authorise(request)
    async with services.database.engine() as connection, connection.transaction():
        known = next((tier for tier in await catalogue.read_tiers(connection) if tier.name == name), None)
        if known is None:
            raise not_found("tier")
        if name == DEFAULT_TIER:
            raise conflict("tier-in-use", f"tasks that name no tier get {DEFAULT_TIER}; change it instead")
        plans = await catalogue.remove_tier(connection, name)
        if plans:
            raise conflict("tier-in-use", f"tier {name} is allowed by {', '.join(plans)}; take it out of there first")
        await audit(connection, caller, "tier.remove", name, **differences(known, None))
    await tell_of_rules(services)
    return Response(status_code=204)


def tier_of(tier: Tier) -> TierDocument:
    return filled(TierDocument, tier, cpu=tier.cpu_milli / 1000, bandwidth_bits=tier.bandwidth_kbit * 1000)


# ---- categories ----------------------------------------------------------------------------------------------------


@router.get("/categories")
@described(CategoryList)
async def list_categories(request: Request) -> Response:
    """All categories."""
    categories = await read_all(request, catalogue.read_categories)
    return answer(CategoryList(categories=[category_of(one) for one in categories]))


@router.put("/categories/{name}")
@described(CategoryDocument, also={201: (CategoryDocument, "The category is new.")}, body=CategoryChange)
async def set_category(request: Request, name: str) -> Response:
    """Makes a category, or changes it for tasks submitted from now on."""
    services, caller = await authorise(request)
    change = await read_json(request, CategoryChange)
    check_name(name)
    async with services.database.engine() as connection, connection.transaction():
        lanes = {lane.name for lane in await catalogue.read_lanes(connection)}
        known = next((one for one in await catalogue.read_categories(connection) if one.name == name), None)
        category = _changed_category(known or Category(name), change, lanes)
        await catalogue.save_category(connection, category)
        await audit(connection, caller, "category.set", name, **differences(known, category))
    await tell_of_rules(services)
    return answer(category_of(category), 201 if known is None else 200)


def _changed_category(category: Category, change: CategoryChange, lanes: set[str]) -> Category:
    faults = FaultList()
    changed = given(change)
    for field, column, least, most, words in (
        ("tolerance", "tolerance_ms", 0, LONGEST_TOLERANCE_MS, "from 0 to 366d"),
        ("cap", "cap_ms", 10, _YEAR_MS, "from 10ms to 366d"),
    ):
        if field in changed:
            changed[column] = amount_of(field, changed.pop(field), milliseconds_of, least, most, words, faults)
    lane, isolation = changed.get("lane"), changed.get("isolation")
    if lane is not None and lane not in lanes:
        there = ", ".join(sorted(lanes))
        faults.add("lane", "unknown-lane", f"there is no lane {lane[:40]!r}; there are {there}")
    if isolation is not None and isolation not in ISOLATIONS:
        detail = f"{isolation[:40]!r} is not one of {', '.join(ISOLATIONS)}, nor null for no default"
        faults.add("isolation", "out-of-range", detail)
    faults.check()
    return replace(category, **changed)


@router.delete("/categories/{name}", status_code=204)
@described(None)
async def remove_category(request: Request, name: str) -> Response:
    """Removes a category. Submitted tasks do not change."""
    services, caller = await authorise(request)
    async with services.database.engine() as connection, connection.transaction():
        known = next((one for one in await catalogue.read_categories(connection) if one.name == name), None)
        if not await catalogue.remove_category(connection, name):
            raise not_found("category")
        await audit(connection, caller, "category.remove", name, **differences(known, None))
    await tell_of_rules(services)
    return Response(status_code=204)


def category_of(category: Category) -> CategoryDocument:
    return filled(
        CategoryDocument,
        category,
        tolerance_seconds=None if category.tolerance_ms is None else category.tolerance_ms / 1000,
        cap_seconds=None if category.cap_ms is None else category.cap_ms / 1000,
    )


# ---- lanes ---------------------------------------------------------------------------------------------------------


@router.get("/lanes")
@described(LaneList)
async def list_lanes(request: Request) -> Response:
    """All lanes, in the order in which they are served."""
    lanes = await read_all(request, catalogue.read_lanes)
    return answer(LaneList(lanes=[filled(LaneDocument, lane) for lane in lanes]))


@router.post("/lanes", status_code=201)
@described(LaneDocument, body=LaneRequest)
async def add_lane(request: Request) -> Response:
    """Makes a lane."""
    services, caller = await authorise(request)
    body = await read_json(request, LaneRequest)
    faults = FaultList()
    check_name(body.name, faults)
    if body.number is not None and not 0 <= body.number <= MOST_NUMBER:
        faults.add("number", "out-of-range", f"number is a whole number from 0 to {MOST_NUMBER:,}, not {body.number}")
    _check_level(body.level, faults)
    faults.check()
    async with services.database.engine() as connection, connection.transaction():
        lanes = await catalogue.read_lanes(connection)
        number = 1 + max(lane.number for lane in lanes) if body.number is None else body.number
        lane = LaneRule(number, body.name, body.level, body.gated, body.promotes)
        if not await catalogue.add_lane(connection, lane):
            taken = next((one for one in lanes if one.number == number and one.name != body.name), None)
            detail = (
                f"lane {taken.name} has the number {number} already; choose another"
                if taken
                else f"there is a lane {body.name} already; choose another name"
            )
            raise conflict("lane-exists", detail)
        await audit(connection, caller, "lane.add", lane.name, **differences(None, lane))
    await tell_of_rules(services)
    return answer(filled(LaneDocument, lane), 201)


@router.patch("/lanes/{name}")
@described(LaneDocument, body=LaneChange)
async def change_lane(request: Request, name: str) -> Response:
    """Changes a lane, but never its number, which tasks carry."""
    services, caller = await authorise(request)
    change = await read_json(request, LaneChange)
    async with services.database.engine() as connection, connection.transaction():
        known = next((lane for lane in await catalogue.read_lanes(connection) if lane.name == name), None)
        lane = _changed_lane(existing(known, "lane"), change)
        await catalogue.save_lane(connection, lane)
        await audit(connection, caller, "lane.set", name, **differences(known, lane))
    await tell_of_rules(services)
    return answer(filled(LaneDocument, lane))


def _changed_lane(known: LaneRule, change: LaneChange) -> LaneRule:
    lane = replace(known, **given(change))
    faults = FaultList()
    _check_level(lane.level, faults)
    if lane.name == URGENT and (lane.gated or lane.level != 0):
        faults.add(
            "gated" if lane.gated else "level",
            "out-of-range",
            "urgent is what others are promoted to: it stays at level 0 and is never gated",
        )
    faults.check()
    return lane


def _check_level(level: int, faults: FaultList) -> None:
    if not 0 <= level <= MOST_NUMBER:
        faults.add("level", "out-of-range", f"level is a whole number from 0 to {MOST_NUMBER:,}, not {level}")


# ---- for all of them -----------------------------------------------------------------------------------------------


def check_name(name: str, faults: FaultList | None = None) -> None:
    """Checks a new name. Without `faults`, the name is in the address and is refused at once."""
    if not _NAME.match(name):
        why = f"{name[:40]!r} is not a name: 1 to 40 of a-z, 0-9 and -, beginning with a letter"
        fault = Fault("/name", "invalid-name", why)
        if faults is None:
            raise invalid([fault])
        faults.faults.append(fault)
