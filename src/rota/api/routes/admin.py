"""Administration: tenants and plans. Every change is audited."""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import UNSET, UnsetType

from rota.admit.judge.fields import LONGEST_TOLERANCE_MS
from rota.api.answers import answer, filled, plan_of
from rota.api.audited import audit, differences
from rota.api.described import described
from rota.api.leaders import RecallOrder, take_back
from rota.api.named_pauses import pause_named
from rota.api.requests import existing, given, read_json
from rota.api.routes.accounts.managing import check_proved
from rota.api.services import authorise, read_all, tell_of_rules
from rota.model.accounts.permissions import Scope
from rota.model.answers.cluster import (
    PausedTenant,
    PlanDocument,
    PlanList,
    TenantDocument,
    TenantList,
)
from rota.model.errors import FaultList, conflict
from rota.model.request.rules import amount_of
from rota.model.resources import CPU_LIMITS, CpuLimit
from rota.model.tenant import Plan
from rota.model.units import bytes_of, cpu_milli_of, milliseconds_of
from rota.store import catalogue, tenants
from rota.store.database import AnyConnection

router = APIRouter(prefix="/v1", tags=["administration"])

_NAME = re.compile(r"^[a-z][a-z0-9-]{0,39}\Z", re.ASCII)
_NUMBERS = (
    "tasks_per_hour",
    "burst",
    "waiting_tasks",
    "running_tasks",
    "schedules",
    "webhooks",
    "tokens",
    "secrets",
    "graphs",
)


class TenantRequest(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    plan: str = "standard"
    trusted: bool = False


class TenantChange(msgspec.Struct, forbid_unknown_fields=True):
    """Fields left out stay as they are."""

    plan: str | UnsetType = UNSET
    trusted: bool | UnsetType = UNSET


class SettingsChange(msgspec.Struct, forbid_unknown_fields=True):
    """What an administrator of the tenant decides. Fields left out stay as they are."""

    support: bool | UnsetType = UNSET
    share_control: bool | UnsetType = UNSET


class PlanChange(msgspec.Struct, forbid_unknown_fields=True):
    """Fields left out stay as they are; null means unlimited, and for `cpu_limit` what the trust in a tenant says."""

    tasks_per_hour: int | UnsetType | None = UNSET
    burst: int | UnsetType | None = UNSET
    waiting_tasks: int | UnsetType | None = UNSET
    running_cpu: int | float | str | UnsetType | None = UNSET
    running_memory: int | str | UnsetType | None = UNSET
    longest_cap: int | float | str | UnsetType = UNSET
    tiers: list[str] | UnsetType | None = UNSET
    weight: int | UnsetType = UNSET
    running_tasks: int | UnsetType | None = UNSET
    schedules: int | UnsetType | None = UNSET
    webhooks: int | UnsetType | None = UNSET
    tokens: int | UnsetType | None = UNSET
    secrets: int | UnsetType | None = UNSET
    graphs: int | UnsetType | None = UNSET
    urgent_percent: int | UnsetType = UNSET
    network: bool | UnsetType = UNSET
    storage: int | str | UnsetType | None = UNSET
    log_limit: int | str | UnsetType | None = UNSET
    tolerance: int | float | str | UnsetType | None = UNSET
    cpu_limit: str | UnsetType | None = UNSET


@router.post("/tenants", status_code=201)
@described(TenantDocument, body=TenantRequest)
async def add_tenant(request: Request) -> Response:
    """Makes a tenant."""
    services, caller = await authorise(request)
    body = await read_json(request, TenantRequest)
    faults = FaultList()
    if not _NAME.match(body.name):
        faults.add("name", "invalid-name", "a name has 1 to 40 of a-z, 0-9 and -, and begins with a letter")
    async with services.database.engine() as connection, connection.transaction():
        await _check_plan(connection, body.plan, faults)
        tenant = await tenants.add_tenant(connection, body.name, body.plan, trusted=body.trusted)
        if tenant is None:
            raise conflict("tenant-exists", f"there is a tenant {body.name} already; choose another name")
        await audit(connection, caller, "tenant.add", body.name, tenant_id=tenant.id, **differences(None, tenant))
    return answer(filled(TenantDocument, tenant), 201)


@router.patch("/tenants/{name}")
@described(TenantDocument, body=TenantChange)
async def change_tenant(request: Request, name: str) -> Response:
    """Changes the plan of a tenant, or whether its code may run without a sandbox. Submitted tasks do not change."""
    services, caller = await authorise(request)
    change = await read_json(request, TenantChange)
    async with services.database.engine() as connection, connection.transaction():
        rows = await tenants.read_tenants(connection)
        found = existing(next((row for row in rows if row.name == name), None), "tenant")
        changed = replace(found, **given(change))
        await _check_plan(connection, changed.plan, FaultList())
        await tenants.save_tenant(connection, name, plan=changed.plan, trusted=changed.trusted)
        await audit(connection, caller, "tenant.set", name, tenant_id=found.id, **differences(found, changed))
    await tell_of_rules(services)
    return answer(filled(TenantDocument, changed))


@router.patch("/tenants/{name}/settings")
@described(TenantDocument, body=SettingsChange)
async def change_settings(request: Request, name: str) -> Response:
    """Whether viewers and operators everywhere see output, results and files of the tenant's tasks (`support`), and
    whether its members may cancel, hold and change each other's tasks (`share_control`).

    An administrator of a tenant changes it for that tenant.
    """
    services, caller = await authorise(request)
    check_proved(caller)
    change = await read_json(request, SettingsChange)
    own = name == caller.tenant or caller.may_everywhere(Scope.USERS_WRITE)
    async with services.database.engine() as connection, connection.transaction():
        rows = await tenants.read_tenants(connection)
        found = existing(next((row for row in rows if row.name == name and own), None), "tenant")
        changed = replace(found, **given(change))
        await tenants.save_settings(connection, changed)
        await audit(connection, caller, "tenant.set", name, tenant_id=found.id, **differences(found, changed))
    services.authenticator.forget()
    return answer(filled(TenantDocument, changed))


@router.post("/tenants/{name}/pause")
@described(PausedTenant)
async def pause_tenant(request: Request, name: str) -> Response:
    """Starts no more tasks of the tenant, in any pool. Running tasks go on; new ones are accepted, and wait.

    What nodes have received and not begun is taken back before the answer. `may_still_start` counts the tasks of nodes
    that did not confirm it within a second.
    """
    services, tenant = await pause_named(request, "tenant", name, tenants.pause_tenant, True)
    await tell_of_rules(services)
    pools = [pool.id for pool in services.membership.pools.values()]
    left = await take_back(services, pools, RecallOrder(tenant=tenant.id))
    return answer(filled(PausedTenant, tenant, may_still_start=left))


@router.post("/tenants/{name}/resume")
@described(TenantDocument)
async def resume_tenant(request: Request, name: str) -> Response:
    """Starts tasks of the tenant again."""
    services, tenant = await pause_named(request, "tenant", name, tenants.pause_tenant, False)
    await tell_of_rules(services)
    return answer(filled(TenantDocument, tenant))


async def _check_plan(connection: AnyConnection, name: str, faults: FaultList) -> None:
    plans = {plan.name for plan in await tenants.read_plans(connection)}
    if name not in plans:
        there = ", ".join(sorted(plans))
        faults.add("plan", "unknown-plan", f"there is no plan {name[:40]!r}; there are {there}")
    faults.check()


@router.get("/tenants")
@described(TenantList)
async def list_tenants(request: Request) -> Response:
    """All tenants."""
    rows = await read_all(request, tenants.read_tenants)
    return answer(TenantList(tenants=[filled(TenantDocument, tenant) for tenant in rows]))


@router.get("/plans")
@described(PlanList)
async def list_plans(request: Request) -> Response:
    """All plans."""
    plans = await read_all(request, tenants.read_plans)
    return answer(PlanList(plans=[plan_of(plan) for plan in plans]))


@router.get("/plans/{name}")
@described(PlanDocument)
async def get_plan(request: Request, name: str) -> Response:
    """One plan, by name."""
    return answer(plan_of(_named(await read_all(request, tenants.read_plans), name)))


@router.patch("/plans/{name}")
@described(PlanDocument, body=PlanChange)
async def change_plan(request: Request, name: str) -> Response:
    """Changes a plan, for all its tenants, on all server nodes within two seconds."""
    services, caller = await authorise(request)
    change = await read_json(request, PlanChange)
    async with services.database.engine() as connection, connection.transaction():
        tiers = {tier.name for tier in await catalogue.read_tiers(connection)}
        before = _named(await tenants.read_plans(connection), name)
        plan = _changed(before, change, tiers)
        await tenants.save_plan(connection, plan)
        await audit(connection, caller, "plan.set", name, **differences(before, plan))
    await tell_of_rules(services)
    return answer(plan_of(plan))


def _named(plans: list[Plan], name: str) -> Plan:
    return existing(next((plan for plan in plans if plan.name == name), None), "plan")


def _changed(plan: Plan, change: PlanChange, tiers: set[str]) -> Plan:
    faults = FaultList()
    changed = given(change)
    for name in _NUMBERS:
        value = changed.get(name)
        if value is not None and not 1 <= value <= 2_000_000_000:
            faults.add(
                name,
                "out-of-range",
                f"it is a whole number from 1 to 2,000,000,000, or null for no limit, not {value}",
            )
    for name, field, convert in (
        ("running_cpu", "running_cpu_milli", cpu_milli_of),
        ("running_memory", "running_memory_bytes", bytes_of),
        ("storage", "storage_bytes", bytes_of),
        ("log_limit", "log_limit_bytes", bytes_of),
    ):
        if name not in changed:
            continue
        value = changed.pop(name)
        try:
            changed[field] = amount = None if value is None else convert(value)
        except ValueError as error:
            faults.add(name, "out-of-range", str(error))
            continue
        if amount is not None and not 1 <= amount < 2**62:
            faults.add(name, "out-of-range", f"{value!r:.40} is not a positive amount")
    if "longest_cap" in changed:
        try:
            changed["longest_cap_seconds"] = seconds = milliseconds_of(changed.pop("longest_cap")) // 1000
            if not 1 <= seconds <= 366 * 86_400:
                faults.add("longest_cap", "out-of-range", "it is a duration from 1s to 366d")
        except ValueError as error:
            faults.add("longest_cap", "out-of-range", str(error))
    if "tolerance" in changed:
        most, value = LONGEST_TOLERANCE_MS, changed.pop("tolerance")
        changed["tolerance_ms"] = amount_of("tolerance", value, milliseconds_of, 0, most, "from 0 to 366d", faults)
    limit = changed.get("cpu_limit")
    if limit is not None and limit not in CPU_LIMITS:
        faults.add("cpu_limit", "out-of-range", f"{limit[:40]!r} is neither burst nor quota, nor null for the default")
    elif limit is not None:
        changed["cpu_limit"] = CpuLimit(limit)
    if changed.get("tiers") is not None:
        changed["tiers"] = tuple(changed["tiers"])
        if not changed["tiers"] or not tiers.issuperset(changed["tiers"]):
            faults.add("tiers", "unknown-tier", f"tiers are some of {', '.join(sorted(tiers))}; null for all")
    for name, least, most in (("weight", 1, 1000), ("urgent_percent", 0, 100)):
        if name in changed and not least <= changed[name] <= most:
            faults.add(name, "out-of-range", f"{name} is from {least:,} to {most:,}, not {changed[name]}")
    faults.check()
    return replace(plan, **changed)
