"""The explanation of a waiting task, the preview of a submission, and one frame of `rota top`."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

from rota.cli.shell.terminal import escape
from rota.cli.tables.render import NOTHING, ago, blocks, exact, facts, labels, number, size, span, table, tolerance
from rota.model.answers import waiting as documents
from rota.model.answers.tasks import Amounts
from rota.model.units import amount_text

_BAR_CELLS = 20
_BASES = {
    "reservation": "the time from which resources are reserved for it",
    "running-tasks": "when running tasks, and those before it, should end",
    "throughput": "the tasks before it and how fast your queue moves",
    "free-now": "the resources that are free now",
    "concurrency-key": "when tasks with its key should end",
    "cool-down": "when its key's cool-down is over",
    "own-tasks": "when your running tasks should end",
    "parents": "when the tasks it waits for should have ended",
    "prefetched": "the tasks before it on its node",
    "preemption": "when others have given way",
    "its-time": "the earliest start it was given",
    "load": "when enough running work should have ended",
    "after-reserved": "when the task with the reservation should have run",
}
_RUN_TIMES = {
    "history": "how long tasks of their name have run",
    "cap": "the caps they were given, and how much of them your tasks use",
    "shape": "how long your tasks of their size have run",
    "age": "how long they have run so far, and as long again",
}


def why(one: documents.TaskExplanation) -> str:
    due = "" if one.start_by is None else f"{exact(one.start_by)} ({ago(one.start_by, datetime.now(UTC))})"
    waits = one.status == "waiting"
    return facts((("task", str(one.id)), ("state", one.state), *_waiting(one), ("start by", due if waits else "")))


def preview(one: documents.PreviewDocument) -> str:
    whole = (
        ("accepted", "yes" if one.accepted else "no, not now"),
        ("tasks", str(one.tasks) if one.tasks > 1 else ""),
        *(("refusal", f"{refusal.type}: {refusal.detail}") for refusal in one.refusals),
        ("already submitted", ", ".join(map(str, one.already_submitted[:20]))),
        *(("limit", _limit(limit)) for limit in one.limits),
        *(("upload", _upload(upload)) for upload in one.uploads),
    )
    groups = [
        (("would be", group.state), *_waiting(group), ("all start", _starts_of_all(group))) for group in one.groups
    ]
    if one.tasks == 1:
        return facts((*whole, *itertools.chain(*groups)))
    parts = [facts(whole)]
    for group, pairs in zip(one.groups, groups, strict=True):
        last = group.first + group.tasks
        alike = f"{group.first + 1} to {last}, {group.tasks} alike" if group.tasks > 1 else str(last)
        name = f" ({group.name})" if group.name else ""
        parts.append(facts((("tasks" if group.tasks > 1 else "task", alike + name), *pairs)))
    if one.groups_left_out:
        parts.append(f"and {amount_text(one.groups_left_out, 'more kind')} of task")
    return "\n\n".join(parts)


def _waiting(one: documents.Explanation) -> tuple[tuple[str, str], ...]:
    now = datetime.now(UTC)
    ahead = [
        f"{one.ahead_of_mine:,} of yours" if one.ahead_of_mine else "",
        f"{one.tenants_ahead:,} other tenant{'s' if one.tenants_ahead > 1 else ''}" if one.tenants_ahead else "",
    ]
    return (
        ("reason", one.reason),
        ("because", one.sentence),
        ("queue position", "" if one.position is None else f"{one.position:,}"),
        ("ahead of it", " and ".join(filter(None, ahead))),
        ("starts", _start(one, now)),
        ("run times from", _RUN_TIMES.get(one.run_times or "", "")),
        ("likely on", "" if one.reason == "running" else one.likely_node or ""),
        ("tolerance", tolerance(one.tolerance_seconds, one.tolerance_source)),
        (
            "nodes",
            ""
            if one.suitable_nodes is None
            else f"{one.suitable_nodes} could hold it, {one.free_nodes} have free resources now",
        ),
    )


def _start(one: documents.Explanation, now: datetime) -> str:
    """`in about 12m00s, by …`, or `unknown: …`. Empty only if it does not wait."""
    start = one.estimated_start
    if start is None:
        return f"unknown: {one.start_unknown}" if one.start_unknown else ""
    left = (start - now).total_seconds()
    if left >= 1:
        when = f"in about {span(left)} ({exact(start)})"
    else:
        when = "now" if one.basis == "free-now" else "in a moment"  # what still waits for something does not start now
    return f"{when}, by {_BASES.get(one.basis, one.basis)}"


def _starts_of_all(group: documents.PreviewGroup) -> str:
    """When the others of a group start: only the first is told above."""
    if group.tasks == 1 or group.estimated_start is None:
        return ""
    now = datetime.now(UTC)
    told = group.tasks - group.without_start
    parts = [f"{group.starting_now:,} of {group.tasks:,} now"] if group.starting_now else []
    if told > max(1, group.starting_now) and group.last_start is not None:
        which = "the last" if not group.without_start else f"the last of {told:,}"
        parts.append(f"{which} in about {span(max(0.0, (group.last_start - now).total_seconds()))}")
    if group.without_start and group.basis == "throughput":
        parts.append(f"{group.without_start:,} after it")
    elif group.without_start:
        parts.append(f"{group.without_start:,} unknown: nothing is known of how long the tasks before them run")
    return ", ".join(parts)


def _upload(one: documents.PreviewUpload) -> str:
    there = "is stored already" if one.stored else "would be uploaded"
    return f"{one.name or one.sha256[:12]} ({size(one.size_bytes)}B) {there}"


def _limit(one: documents.MetLimit) -> str:
    in_bytes = one.limit.endswith("_bytes")
    name = one.limit.removesuffix("_bytes").replace("_", " ")
    used, asked, most = (size(int(n)) if in_bytes else number(n) for n in (one.used, one.asked, one.most))
    return f"{name}: {used} in use, {asked} asked for, {most} at most at once"


# ---- rota top -------------------------------------------------------------------------------------------------------


def frame(load: documents.PoolLoadDocument) -> str:
    """Everything the caller may see of the pool, as one screen."""
    parts = [_head(load), _resources(load)]
    if load.demand is not None:
        parts.append(_demand(load.demand))
    if load.lanes is not None:
        columns = ("LANES", "READY>", "RUNNING>", "GATED")
        rows = [
            (", ".join(one.lanes), number(one.ready), number(one.running), "yes" if one.gated else "")
            for one in load.lanes
        ]
        parts.append(table(columns, rows, empty=""))
    parts.append(_tenants(load))
    if load.nodes is not None:
        parts.append(_nodes(load))
    if load.reservations:
        columns = ("RESERVED FOR>", "NODE", "WHEN>", "HOW")
        now = load.at or datetime.now(UTC)
        rows = [
            (str(one.task), one.node, ago(one.at, now), "others give way" if one.preempting else "as work ends")
            for one in load.reservations
        ]
        parts.append(table(columns, rows, empty=""))
    return "\n\n".join(part for part in parts if part)


def _head(load: documents.PoolLoadDocument) -> str:
    mark = f"{load.peak_mark:.0%}"
    words = [f"pool {load.pool}", f"led by {load.leader}, epoch {load.epoch}"]
    if load.paused:
        words.append("PAUSED: nothing new starts")
    words.append(f"peak: gated lanes wait (mark {mark})" if load.peak else f"below the peak mark of {mark}")
    if load.ready is not None:
        words.append(f"{load.ready:,} ready, {load.running or 0:,} running")
    return escape("   ".join(words))


def _resources(load: documents.PoolLoadDocument) -> str:
    columns = ["RESOURCE", "IN USE", ">"]
    detailed = any(one.total is not None for one in load.resources)
    if detailed:
        columns += ["USED>", "TOTAL>", "REQUESTED>"]
    rows = [
        (
            one.name,
            blocks(round(one.utilisation * _BAR_CELLS), _BAR_CELLS),
            f"{one.utilisation:.0%}",
            *((_amount(one.name, each) for each in (one.used, one.total, one.asked)) if detailed else ()),
        )
        for one in load.resources
    ]
    return table(columns, rows, empty="no node of the pool is connected")


def _demand(demand: documents.DemandDocument) -> str:
    lines = [
        f"missing: {one.nodes} more of {_amounts(one.capacity)}{_with(one.require)} "
        f"to start {_tasks(one.tasks)} in time"
        for one in demand.missing
    ]
    if demand.late:
        lines.insert(0, f"late: {_tasks(demand.late)} can't start by the time asked for")
    lines += [
        f"no present node could hold {_tasks(one.tasks)} of {_amounts(one.asks)}{_with(one.require)}"
        for one in demand.unplaceable[:3]
    ]
    if demand.idle:
        shown = ", ".join(demand.idle[:8]) + (" …" if len(demand.idle) > 8 else "")
        lines.append(f"idle: {len(demand.idle)} ({shown})")
    return escape("\n".join(lines))


def _with(require: dict[str, str]) -> str:
    return f" with {labels(require)}" if require else ""


def _tenants(load: documents.PoolLoadDocument) -> str:
    columns = ("TENANT~", "HOLDS>", "CHARGED>", "WEIGHT>?", "READY>", "RUNNING>")
    shown = load.tenants if load.tenants is not None else [load.own] if load.own else []
    rows = [
        (
            f"{one.tenant} (paused)" if one.paused else one.tenant,
            f"{one.share:.1%}",
            f"{one.charged_share:.1%}",
            str(one.weight),
            number(one.ready),
            number(one.running),
        )
        for one in shown
    ]
    return table(columns, rows, empty="")


def _nodes(load: documents.PoolLoadDocument) -> str:
    columns = ("NODE", "STATE", "CPU FREE>", "MEMORY FREE>", "GPUS FREE>?", "RUNNING>", "PREFETCHED>")
    rows = [
        (
            one.name,
            one.state,
            f"{number(one.free.cpu)}/{number(one.capacity.cpu)}",
            f"{size(one.free.memory_bytes)}/{size(one.capacity.memory_bytes)}",
            f"{number(one.free.gpus)}/{number(one.capacity.gpus)}" if one.capacity.gpus else NOTHING,
            str(one.running),
            str(one.prefetched),
        )
        for one in load.nodes or ()
    ]
    return table(columns, rows, empty="no nodes")


def _amount(name: str, amount: int | None) -> str:
    if amount is None:
        return NOTHING
    if name in ("cpu", "gpu"):
        return number(amount / 1000)
    if name in ("memory", "disk"):
        return size(amount)
    return size(amount * 1000) if name == "bandwidth" else number(amount)


def _tasks(count: int) -> str:
    return amount_text(count, "task")


def _amounts(amounts: Amounts) -> str:
    parts = [f"{number(amounts.cpu)} cpu", f"{size(amounts.memory_bytes)} memory"]
    parts += [f"{number(amounts.gpus)} gpu"] if amounts.gpus else []
    return ", ".join([*parts, *(f"{amount} {name}" for name, amount in sorted(amounts.custom.items()))])
