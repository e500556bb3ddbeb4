"""Reads a graph's rows: its status, the relatives of a task, and its critical path. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.model.task import STATUS, State, Status, Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A task of a graph. `parents` may be outside the graph; of a parent that was run again, the new run counts."""

    id: int
    name: str
    state: State
    parents: tuple[tuple[int, Upstream], ...]
    started_at: datetime | None
    ended_at: datetime | None
    created_at: datetime


def whole_status(counts: Mapping[State, int]) -> Status:
    """In progress until all tasks have ended; then failed if one failed, cancelled if one was cancelled, else done.

    A skipped task does not count: the task that caused the skip does.
    """
    live = [state for state, count in counts.items() if count and not state.terminal]
    if live:
        begun = State.RUNNING in live or any(count for state, count in counts.items() if state.terminal)
        return Status.IN_PROGRESS if begun else Status.WAITING
    if counts.get(State.FAILED):
        return Status.FAILED
    if counts.get(State.CANCELLED) or counts.get(State.EXPIRED):
        return Status.CANCELLED
    return Status.DONE


def counted(states: Iterable[State]) -> dict[State, int]:
    return Counter(states)


def by_status(counts: Mapping[State, int]) -> dict[str, int]:
    """The number of tasks in each status, zeros included."""
    found = {status.value: 0 for status in Status}
    for state, count in counts.items():
        found[STATUS[state].value] += count
    return found


def called(members: Sequence[Member], text: str) -> list[int]:
    """The ids that a name or an id means; an array's name means all of its tasks."""
    return [
        member.id
        for member in members
        if text in (member.name, str(member.id))
        or (member.name.endswith("]") and member.name.rpartition("[")[0] == text)
    ]


def relatives(members: Sequence[Member], starts: Iterable[int], *, up: bool) -> set[int]:
    """All tasks that `starts` depend on, directly or not; downwards, all their dependents."""
    within = {member.id for member in members}
    edges: dict[int, list[int]] = {}
    for member in members:
        for parent, _ in member.parents:
            if parent in within:
                before, after = (member.id, parent) if up else (parent, member.id)
                edges.setdefault(before, []).append(after)
    found: set[int] = set()
    frontier = [one for start in starts for one in edges.get(start, ())]
    while frontier:
        one = frontier.pop()
        if one not in found:
            found.add(one)
            frontier += edges.get(one, ())
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """One task of the critical path: how long it waited after it could have started, and how long it ran."""

    member: Member
    waited_seconds: float
    run_seconds: float


def critical_path(members: Sequence[Member], now: datetime) -> list[Step]:
    """The chain of tasks that decided when the graph ended: from the last end back, each time to the last parent."""
    begun = {member.id: member for member in members if member.started_at is not None}
    ends = {number: member.ended_at or now for number, member in begun.items()}
    if not begun:
        return []
    path: list[Step] = []
    last: int | None = max(begun, key=lambda number: (ends[number], number))
    while last is not None:
        member = begun[last]
        parents = [parent for parent, _ in member.parents if parent in begun]
        before = max(parents, key=lambda number: (ends[number], number), default=None)
        free_at = member.created_at if before is None else ends[before]
        assert member.started_at is not None
        waited = max(0.0, (member.started_at - free_at).total_seconds())
        path.append(Step(member, waited, max(0.0, (ends[last] - member.started_at).total_seconds())))
        last = before
    return path[::-1]
