"""What a graph's rows mean: the state of the whole, who comes before whom, and the path that took longest. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.model.task import STATUS, State, Status, Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A task in its graph. `parents` may be outside it; a parent that was run again is the new run."""

    id: int
    name: str
    state: State
    parents: tuple[tuple[int, Upstream], ...]
    started_at: datetime | None
    ended_at: datetime | None
    created_at: datetime


def whole_status(counts: Mapping[State, int]) -> Status:
    """In progress until everybody has ended; then failed if anybody did, cancelled if anybody was, else done.

    A task that was skipped says nothing by itself: somebody else failed, was cancelled, or did not fail as it wished.
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
    counts: dict[State, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return counts


def by_status(counts: Mapping[State, int]) -> dict[str, int]:
    """The five words for people, all of them, and how many tasks are so."""
    found = {status.value: 0 for status in Status}
    for state, count in counts.items():
        found[STATUS[state].value] += count
    return found


def called(members: Sequence[Member], text: str) -> list[int]:
    """Those that a name or an id means; an array's name means all of its tasks."""
    return [
        member.id
        for member in members
        if text in (member.name, str(member.id))
        or (member.name.endswith("]") and member.name.rpartition("[")[0] == text)
    ]


def relatives(members: Sequence[Member], starts: Iterable[int], *, up: bool) -> set[int]:
    """Everybody that one of `starts` waits for, directly or not; or, downwards, everybody that waits for one."""
    within = {member.id for member in members}
    edges: dict[int, list[int]] = {}
    for member in members:
        for parent, _ in member.parents:
            if parent in within:
                child_or_self = (member.id, parent) if up else (parent, member.id)
                edges.setdefault(child_or_self[0], []).append(child_or_self[1])
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
    """One task of the critical path: how long it waited once it could have started, and how long it ran."""

    member: Member
    waited_seconds: float
    run_seconds: float


def critical_path(members: Sequence[Member], now: datetime) -> list[Step]:
    """The chain that decided when the graph ended, or how far it is: back from the last end, to each last parent."""
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
