"""The limits of a plan: the rate of submission, and the number of waiting tasks, graphs, schedules and the like.

A request above a limit is refused at once with 429, never accepted slowly. A batch that is larger than the burst or
than the number of waiting tasks can never pass, so it is refused with 422.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from rota.model.errors import Fault, Problem
from rota.model.tenant import Caller, Plan
from rota.model.units import amount_text
from rota.store import tenants
from rota.store.database import AnyConnection, Database
from rota.store.tenants import Numbered

TRIES = 3


@dataclass(frozen=True, slots=True)
class Allowance:
    """A plan's rate: one task per `interval`, and up to `burst` tasks ahead of time."""

    interval: timedelta
    burst: int

    @property
    def ahead(self) -> timedelta:
        return self.interval * self.burst

    def allowed_now(self, backlog_seconds: float) -> int:
        """How many tasks would pass now."""
        used = backlog_seconds / self.interval.total_seconds()
        return max(0, int(self.burst - used))

    def seconds_until(self, tasks: int, backlog_seconds: float) -> float:
        return max(0.0, backlog_seconds + (tasks - self.burst) * self.interval.total_seconds())


def allowance_of(plan: Plan) -> Allowance | None:
    if plan.tasks_per_hour is None:
        return None
    return Allowance(timedelta(hours=1) / plan.tasks_per_hour, plan.burst or plan.tasks_per_hour)


async def backlog_seconds(connection: AnyConnection, tenant: int, allowance: Allowance) -> float:
    """How far the tenant is ahead of its rate."""
    return await tenants.rate_backlog(connection, tenant, interval=allowance.interval, ahead=allowance.ahead)


async def check_limits(database: Database, caller: Caller, tasks: int) -> None:
    """Raises if the tasks exceed a limit of the plan; else takes them off the tenant's allowance."""
    check_size(caller.plan, tasks)
    await check_waiting(database, caller, tasks)
    await check_rate(database, caller, tasks)


async def take_fitting(
    database: Database, caller: Caller, sizes: Sequence[int], share: Callable[[int], int]
) -> tuple[list[bool], str]:
    """Takes batches of these sizes off the tenant's allowance, in order, as far as they fit into the plan's limits.

    Returns which of them fit, and a sentence about the limits. `share` gets the number of tasks that would be allowed
    now and returns how many of them may be taken.
    """
    plan, allowance = caller.plan, allowance_of(caller.plan)
    limits = [] if plan.waiting_tasks is None else [f"{plan.waiting_tasks} waiting and running tasks"]
    if allowance is not None:
        limits.append(f"{amount_text(plan.tasks_per_hour or 0, 'task')} an hour, {allowance.burst:,} of them at once")
    detail = f"plan {plan.name} allows {' and '.join(limits)}; "
    for _ in range(TRIES):
        allowed = await _allowed_now(database, caller)
        left = share(allowed)
        fits = []
        for size in sizes:
            fits.append(size <= left)
            left -= size if fits[-1] else 0
        try:
            await check_rate(database, caller, sum(size for size, fit in zip(sizes, fits, strict=True) if fit))
        except Problem:
            continue  # other submissions were faster
        return fits, f"{detail}{allowed} would be allowed now"
    return [False] * len(sizes), f"{detail}others took what was left"


async def _allowed_now(database: Database, caller: Caller) -> int:
    """How many tasks would pass now. The plan has a limit of them."""
    allowance, most = allowance_of(caller.plan), caller.plan.waiting_tasks
    allowed: list[int] = []
    async with database.engine() as connection:
        if allowance is not None:
            allowed.append(allowance.allowed_now(await backlog_seconds(connection, caller.tenant_id, allowance)))
        if most is not None:
            allowed.append(max(0, most - await tenants.count_waiting(connection, caller.tenant_id, up_to=most)))
    return min(allowed)


def check_size(plan: Plan, tasks: int) -> None:
    """Raises if the plan can never admit so many tasks at once, however long the caller waits."""
    allowance = allowance_of(plan)
    detail = f"the batch has {amount_text(tasks, 'task')}; plan {plan.name} "
    if plan.waiting_tasks is not None and tasks > plan.waiting_tasks:
        detail += f"allows {plan.waiting_tasks} waiting and running tasks in all"
    elif allowance is not None and tasks > allowance.burst:
        detail += f"admits at most {allowance.burst} at once"
    else:
        return
    raise Problem(
        "batch-exceeds-plan",
        status=422,
        title="The batch is larger than the plan can ever admit",
        detail=detail,
        faults=(Fault("/tasks", "batch-exceeds-plan", detail),),
    )


async def check_rate(database: Database, caller: Caller, tasks: int, *, take: bool = True) -> None:
    """Takes the tasks off the tenant's allowance in a transaction of its own, or raises a Problem.

    `take` False: raises if the tasks would not pass now, but takes nothing.
    """
    plan, allowance = caller.plan, allowance_of(caller.plan)
    if allowance is None or tasks == 0:
        return
    async with database.engine() as connection:
        if take and await tenants.take_rate(
            connection, caller.tenant_id, tasks=tasks, interval=allowance.interval, ahead=allowance.ahead
        ):
            return
        backlog = await backlog_seconds(connection, caller.tenant_id, allowance)
    allowed_now = allowance.allowed_now(backlog)
    if take or allowed_now < tasks:
        detail = (
            f"plan {plan.name} allows {amount_text(plan.tasks_per_hour or 0, 'task')} an hour, "
            f"{allowance.burst:,} of them at once; "
            f"{allowed_now} would be allowed now, {_asked_for(tasks)}"
        )
        raise _exceeded("rate-limited", detail, allowed_now, tasks, allowance.seconds_until(tasks, backlog))


async def check_waiting(database: Database, caller: Caller, tasks: int) -> None:
    """Raises if the plan's number of waiting tasks would be exceeded. Counts no further than that number."""
    most = caller.plan.waiting_tasks
    if most is None:
        return
    async with database.engine() as connection:
        waiting = await tenants.count_waiting(connection, caller.tenant_id, up_to=most + 1)
    if waiting + tasks > most:
        detail = (
            f"plan {caller.plan.name} allows {most} waiting and running tasks; there are {waiting}, {_asked_for(tasks)}"
        )
        raise _exceeded("quota-exceeded", detail, max(0, most - waiting), tasks, 30.0)


async def check_number(connection: AnyConnection, tenant: int, plan: Plan, what: Numbered) -> None:
    """Raises if the tenant has as many as its plan allows. None is added until the caller's transaction ends."""
    most: int | None = getattr(plan, what)
    if most is None:
        return
    used = await tenants.count_and_lock(connection, tenant, what)
    if used >= most:
        raise too_many(plan.name, what, most, f"there are {used}; remove one first")


def too_many(plan: str, what: str, most: int, advice: str) -> Problem:
    detail = f"plan {plan} allows {most} {what}; {advice}"
    extra: dict[str, object] = {"limit": what, "most": most}
    return Problem("quota-exceeded", status=429, title="Limit exceeded", detail=detail, extra=extra)


def too_many_graphs(plan: Plan) -> Problem:
    advice = "old graphs and arrays go with their tasks (rota retention)"
    return too_many(plan.name, "graphs", plan.graphs or 0, advice)


def _asked_for(tasks: int) -> str:
    return f"{tasks} {'was' if tasks == 1 else 'were'} asked for"


def _exceeded(slug: str, detail: str, allowed_now: int, asked: int, retry_after_seconds: float) -> Problem:
    return Problem(
        slug,
        status=429,
        title="Limit exceeded",
        detail=detail,
        retry_after_seconds=retry_after_seconds,
        extra={"allowed_now": allowed_now, "asked": asked},
    )
