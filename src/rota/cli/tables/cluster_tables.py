"""Tables of the cluster and its users: me, nodes, servers, tenants, plans."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rota.cli.tables.render import NOTHING, ago, exact, facts, labels, limit, number, size, span, table
from rota.model.answers import cluster as documents
from rota.model.answers.catalogue import PausedPool

_NUMBERS = ("schedules", "webhooks", "tokens", "secrets", "graphs")  # fields of a plan and of its usage
_AWAY = ("left", "silent", "lost")  # states of a node without a worker


def me(answer: documents.Me) -> str:
    plan, used = answer.plan, answer.usage
    memory = size(plan.running_memory_bytes) if plan.running_memory_bytes is not None else "unlimited"
    return facts(
        (
            ("tenant", answer.tenant),
            ("user", answer.user),
            ("role", answer.role),
            ("plan", plan.name),
            ("tasks an hour", f"{limit(plan.tasks_per_hour)}, burst {_burst(answer)}"),
            ("waiting", f"{number(used.waiting)} of {limit(plan.waiting_tasks)}"),
            ("running", number(used.running)),
            ("cpu in use", f"{number(used.running_cpu)} of {limit(plan.running_cpu)}"),
            ("memory in use", f"{size(used.running_memory_bytes)} of {memory}"),
            *((name, f"{number(getattr(used, name))} of {limit(getattr(plan, name))}") for name in _NUMBERS),
            ("storage", f"{size(used.storage_bytes)} of {_storage(plan)}"),
            ("log limit", f"{_log_limit(plan)} of each attempt, if a task asks for it"),
            ("longest cap", span(plan.longest_cap_seconds)),
            ("tolerance", f"{_tolerance(plan)} if a task has no tolerance, category or cap"),
            ("cpu limit", _cpu_limit(plan)),
            ("tiers", _tiers(plan)),
        )
    )


def nodes(answer: documents.NodeList) -> str:
    now = datetime.now(UTC)
    columns = (
        "NAME",
        "POOL",
        "STATE",
        "CPU FREE>",
        "MEMORY FREE>",
        "GPUS>?",
        "RUNNING>",
        "FROZEN>?",
        "SEEN>?",
        "LABELS~",
    )
    rows = [
        (
            node.name or str(node.id),
            node.pool,
            node.state,
            _of(number, node, "cpu"),
            _of(size, node, "memory_bytes"),
            _of(number, node, "gpus") if node.capacity.gpus else NOTHING,
            _unknown(node.running),
            number(node.frozen) if node.frozen else NOTHING,
            ago(node.seen_at, now),
            labels(node.labels),
        )
        for node in answer.nodes
    ]
    return table(columns, rows, empty="no nodes: start one with rota worker")


def node(one: documents.NodeDocument) -> str:
    has = one.capacity
    pairs = [
        ("node", one.name or str(one.id)),
        ("number", str(one.id)),
        ("pool", one.pool),
        ("state", one.state),
        ("drained", "yes: it takes nothing when it is back" if one.draining and one.state in _AWAY else ""),
        ("drained by", exact(one.drain_by) if one.drain_by else ""),
        ("running", _unknown(one.running)),
        ("frozen", f"{number(one.frozen)}: they go on when the node has a leader again" if one.frozen else ""),
        ("cpu free", _of(number, one, "cpu")),
        ("memory free", _of(size, one, "memory_bytes")),
        ("disk free", _of(size, one, "disk_bytes")),
        ("disk operations/s free", _of(number, one, "iops") if has.iops else ""),
        ("bandwidth free", f"{_of(size, one, 'bandwidth_bits')} bit/s" if has.bandwidth_bits else ""),
        ("gpus free", _of(number, one, "gpus") if has.gpus else ""),
        ("ports free", _of(number, one, "ports") if has.ports else ""),
    ]
    left = one.free.custom if one.free else None
    pairs += [
        (f"{name} free", f"{'?' if left is None else left.get(name, 0)}/{amount}")
        for name, amount in sorted(has.custom.items())
    ]
    pairs += [
        ("labels", labels(one.labels)),
        ("capabilities", ", ".join(one.capabilities)),
        ("version", one.version),
        ("seen", ago(one.seen_at, datetime.now(UTC))),
        *_key(one.key),
    ]
    return facts(pairs)


def _key(key: documents.NodeKeyDocument | None) -> list[tuple[str, str]]:
    if key is None:
        return [("key", "none: its worker sends a worker's token")]
    how = "by rota up" if key.joined_with is None else f"with worker key {key.joined_with}"
    return [("key", key.fingerprint), ("joined", f"{exact(key.joined_at)} {how}" if key.joined_at else how)]


def drained(one: documents.DrainedNode) -> str:
    if one.running == 0:
        return f"node {one.name} takes nothing new; nothing runs there"
    until = f" until {exact(one.drain_by)}" if one.drain_by else ""
    text = f"node {one.name} takes nothing new; what runs there may finish{until} (rota node show {one.name})"
    return text + _unconfirmed(one.may_still_start)


def paused(what: str, one: documents.PausedTenant | PausedPool) -> str:
    return f"{what} {one.name} is paused" + _unconfirmed(one.may_still_start)


def _unconfirmed(tasks: int) -> str:
    """Tasks that nodes had received before a pause, and did not give back in time."""
    if not tasks:
        return ""
    return f"; up to {tasks} that nodes got before may still start: these nodes do not answer"


def _of(draw: Callable[[Any], str], one: documents.NodeDocument, field: str) -> str:
    """Free and total; a question mark while the pool's leader does not answer."""
    free = "?" if one.free is None else draw(getattr(one.free, field))
    return f"{free}/{draw(getattr(one.capacity, field))}"


def _unknown(amount: int | None) -> str:
    return "?" if amount is None else str(amount)


def servers(answer: documents.ServerList) -> str:
    now = datetime.now(UTC)
    columns = ("NAME", "URL~", "STATE", "VERSION", "SEEN>", "LEADS")
    rows = [
        (one.name, one.url or NOTHING, one.state, one.version, ago(one.seen_at, now), ", ".join(one.leads) or NOTHING)
        for one in answer.servers
    ]
    return table(columns, rows, empty="no servers")


def tenants(answer: documents.TenantList) -> str:
    now = datetime.now(UTC)
    columns = ("NAME", "PLAN", "TRUSTED", "PAUSED", "SUPPORT?", "CREATED>")
    rows = [
        (
            one.name,
            one.plan or NOTHING,
            "yes" if one.trusted else "no",
            "yes" if one.paused else "no",
            "on" if one.support else NOTHING,
            ago(one.created_at, now),
        )
        for one in answer.tenants
    ]
    return table(columns, rows, empty="no tenants")


def plans(answer: documents.PlanList) -> str:
    columns = (
        "NAME",
        "TASKS/HOUR>",
        "BURST>",
        "WAITING>",
        "CPU>",
        "MEMORY>",
        "LONGEST CAP>",
        "WEIGHT>",
        "RUNNING>?",
        "URGENT>?",
        "NETWORK?",
        "STORAGE>?",
        "LOG>?",
        "TOLERANCE>?",
        "CPU LIMIT?",
        "TIERS~",
    )
    return table(columns, [_plan_row(one) for one in answer.plans], empty="no plans")


def plan(one: documents.PlanDocument) -> str:
    names = (
        "plan",
        "tasks an hour",
        "burst",
        "waiting tasks",
        "running cpu",
        "running memory",
        "longest cap",
        "weight",
        "running tasks",
        "may be urgent",
        "network",
        "storage",
        "log limit",
        "tolerance",
        "",
        "tiers",
    )
    numbers = ((name, limit(getattr(one, name))) for name in _NUMBERS)
    named = [pair for pair in zip(names, _plan_row(one), strict=True) if pair[0]]
    return facts((*named, ("cpu limit", _cpu_limit(one)), *numbers))


def _plan_row(one: documents.PlanDocument) -> tuple[str, ...]:
    return (
        one.name,
        limit(one.tasks_per_hour),
        limit(one.burst),
        limit(one.waiting_tasks),
        limit(one.running_cpu),
        size(one.running_memory_bytes) if one.running_memory_bytes is not None else "unlimited",
        span(one.longest_cap_seconds),
        str(one.weight),
        limit(one.running_tasks),
        f"{one.urgent_percent} %",
        "yes" if one.network else "no",
        _storage(one),
        _log_limit(one),
        _tolerance(one),
        one.cpu_limit or NOTHING,
        _tiers(one),
    )


def _storage(one: documents.PlanDocument) -> str:
    return size(one.storage_bytes) if one.storage_bytes is not None else "unlimited"


def _log_limit(one: documents.PlanDocument) -> str:
    return size(one.log_limit_bytes) if one.log_limit_bytes is not None else "unlimited"


def _cpu_limit(one: documents.PlanDocument) -> str:
    return one.cpu_limit or "burst for trusted tenants, else quota"


def _tiers(one: documents.PlanDocument) -> str:
    return "all" if one.tiers is None else ", ".join(one.tiers)


def _tolerance(one: documents.PlanDocument) -> str:
    return "none" if one.tolerance_seconds is None else span(one.tolerance_seconds)


def _burst(answer: documents.Me) -> str:
    if answer.usage.burst_left is None:
        return limit(answer.plan.burst)
    return f"{number(int(answer.usage.burst_left))} left of {limit(answer.plan.burst)}"
