"""Rate limits by plan: a pure reading of the plan, and one statement per tenant and batch.

Above the limit the answer is an immediate 429, never a slow acceptance. A batch larger than the burst could never
pass, so it gets a final 422 instead of an invitation to try again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from rota.model.errors import Fault, Problem
from rota.model.tenant import Caller, Plan
from rota.store import tenants
from rota.store.database import Database


@dataclass(frozen=True, slots=True)
class Allowance:
    """A plan's rate as the algorithm wants it: one task per `interval`, `burst` of them ahead of time."""

    interval: timedelta
    burst: int

    @property
    def ahead(self) -> timedelta:
        return self.interval * self.burst

    def room(self, backlog_seconds: float) -> int:
        """How many tasks would be allowed now."""
        used = backlog_seconds / self.interval.total_seconds()
        return max(0, int(self.burst - used))

    def seconds_until(self, tasks: int, backlog_seconds: float) -> float:
        return max(0.0, backlog_seconds + (tasks - self.burst) * self.interval.total_seconds())


def allowance_of(plan: Plan) -> Allowance | None:
    if plan.tasks_per_hour is None:
        return None
    return Allowance(timedelta(hours=1) / plan.tasks_per_hour, plan.burst or plan.tasks_per_hour)


async def check_rate(database: Database, caller: Caller, tasks: int) -> None:
    """Takes the tasks off the tenant's allowance, in a transaction of its own, or raises."""
    allowance = allowance_of(caller.plan)
    if allowance is None or tasks == 0:
        return
    _check_burst(caller, allowance, tasks)
    async with database.engine() as connection:
        if await tenants.take_rate(
            connection, caller.tenant_id, tasks=tasks, interval=allowance.interval, burst=allowance.ahead
        ):
            return
        backlog = await tenants.rate_backlog(connection, caller.tenant_id)
    raise _rate_limited(caller, allowance, tasks, backlog)


async def would_pass(database: Database, caller: Caller, tasks: int) -> None:
    """Raises as `check_rate` would, but takes nothing off the allowance."""
    allowance = allowance_of(caller.plan)
    if allowance is None or tasks == 0:
        return
    _check_burst(caller, allowance, tasks)
    async with database.engine() as connection:
        backlog = await tenants.rate_backlog(connection, caller.tenant_id)
    if allowance.room(backlog) < tasks:
        raise _rate_limited(caller, allowance, tasks, backlog)


def _check_burst(caller: Caller, allowance: Allowance, tasks: int) -> None:
    if tasks > allowance.burst:
        detail = f"the batch has {tasks} tasks; plan {caller.plan.name} admits at most {allowance.burst} at once"
        raise Problem(
            "batch-exceeds-plan", status=422, title="The batch is larger than the plan can ever admit",
            detail=detail, faults=(Fault("/tasks", "batch-exceeds-plan", detail),),
        )  # fmt: skip


def _rate_limited(caller: Caller, allowance: Allowance, tasks: int, backlog: float) -> Problem:
    room, wait = allowance.room(backlog), allowance.seconds_until(tasks, backlog)
    return Problem(
        "rate-limited", status=429, title="Limit exceeded",
        detail=f"plan {caller.plan.name} admits {caller.plan.tasks_per_hour} tasks an hour; "
        f"{room} would be allowed now, {tasks} were asked for",
        retry_after_seconds=wait, extra={"allowed_now": room, "asked": tasks},
    )  # fmt: skip


async def check_waiting(database: Database, caller: Caller, tasks: int) -> None:
    """The cap on waiting tasks: counted, no further than the cap."""
    most = caller.plan.waiting_tasks
    if most is None:
        return
    async with database.engine() as connection:
        waiting = await tenants.count_waiting(connection, caller.tenant_id, up_to=most + 1)
    if waiting + tasks > most:
        raise Problem(
            "quota-exceeded", status=429, title="Limit exceeded",
            detail=f"{waiting} tasks wait or run; plan {caller.plan.name} has room for {most}, {tasks} were asked for",
            retry_after_seconds=30.0, extra={"allowed_now": max(0, most - waiting), "asked": tasks},
        )  # fmt: skip
