"""Judges an edit of a waiting task with the checks of admission, applied to the changed fields. Pure.

A task may move to another pool only if it could have been submitted there.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET

from rota.admit.judge import fields, resources
from rota.admit.judge.facts import Facts, PoolFacts
from rota.model.errors import FaultList
from rota.model.request import rules
from rota.model.request.edit import EDITABLE, Edit, EditRequest
from rota.model.request.task_request import TaskRequest
from rota.model.resources import Shape


@dataclass(frozen=True, slots=True)
class Movable:
    """What a task requires of another pool."""

    shape: Shape
    isolation: str
    unplaceable_waits: bool


def edit_of(wanted: EditRequest, task: Movable | None, facts: Facts, faults: FaultList) -> Edit:
    """The checked edit of a task. Without a task, of tasks that are checked one by one later: see `check_pool`."""
    if wanted.empty:
        faults.add("", "invalid-value", f"give at least one of {', '.join(EDITABLE)}")
    given = {name: getattr(wanted, name) for name in EDITABLE}
    asked = TaskRequest(**{name: value for name, value in given.items() if value is not UNSET})
    rules.check_order(asked, faults)
    lane = None if wanted.lane is UNSET else fields.lane_named(wanted.lane, facts, faults)
    cap = None if wanted.cap is UNSET else fields.cap_of(asked, None, facts.plan, faults)
    tolerance_ms = None
    if wanted.tolerance is not UNSET:
        tolerance_ms = fields.tolerance_of(asked, None, (0, False), None, None, faults).order_ms
    pool = None if wanted.pool is UNSET else resources.pool_named(wanted.pool, facts, faults)
    if pool is not None and task is not None:
        check_pool(task, pool, faults)
    timed = wanted.at is not UNSET or wanted.delay is not UNSET
    not_before = fields.not_before_of(asked, facts.now, faults) if timed else None
    passed = fields.passed_fault(asked, "", facts.now)
    if passed is not None:
        faults.faults.append(passed)
    return Edit(
        priority=None if wanted.priority is UNSET else wanted.priority,
        lane=lane,
        cap_ms=None if cap is None else cap[0],
        tolerance_ms=tolerance_ms,
        pool=None if pool is None else (pool.id, pool.name),
        not_before=not_before,
        at_once=timed and not_before is None,
    )


def check_pool(task: Movable, pool: PoolFacts, faults: FaultList) -> None:
    """Whether the task could have been submitted to this pool."""
    if task.isolation not in pool.isolations:
        allowed = ", ".join(pool.isolations)
        faults.add("pool", "isolation-not-allowed", f"pool {pool.name} allows {allowed}, not {task.isolation}")
    if not task.unplaceable_waits:
        resources.check_satisfiable(task.shape, pool, faults, field="pool")
