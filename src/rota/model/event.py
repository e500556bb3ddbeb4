"""Events, their cursors in the log, and filters.

A row of the log (`Kind`) names the tasks that one transaction changed in one way; each task becomes none, one or two
events. An event's cursor is (transaction, row, position). It never changes, so it is the event's id as well.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from rota.model.stage import StageDone


class EventType(enum.StrEnum):
    SUBMITTED = "submitted"  # it was admitted, by a client, a schedule or a retry
    HELD = "held"  # its owner keeps it from starting, for a reason
    RELEASED = "released"  # its hold is over
    PAUSED = "paused"  # it has stopped, or does not start, until its owner resumes it
    RESUMED = "resumed"
    EDITED = "edited"  # while it waited
    EXTENDED = "extended"  # its cap was changed, running or not
    PROMOTED = "promoted"  # its start-by time is near: it is ordered before others
    STARTED = "started"  # an attempt was authorised on a node
    LATE = "late"  # its start-by time passed before it ran
    DONE = "done"
    FAILED = "failed"  # an attempt failed; there may be another
    DEAD_LETTERED = "dead-lettered"  # its attempts are used up
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # a task it depends on did not end as required
    EXPIRED = "expired"
    STAGE_DONE = "stage-done"  # one of its stages is finished
    SCHEDULE_SKIPPED = "schedule-skipped"  # an instant of a schedule became no run


class Kind(enum.IntEnum):
    """What happened to the tasks of a row of the log."""

    STARTED = 1
    STARTED_LATE = 2
    ENDED = 3  # an attempt has ended; its row has the outcome
    LATE = 4  # still waiting after its start-by time
    SCHEDULE_SKIPPED = 5
    STAGE_DONE = 6
    SUBMITTED = 7  # its row names the first and last task of each run of consecutive ids
    PROMOTED = 8
    HELD = 9
    RELEASED = 10
    PAUSED = 11
    RESUMED = 12
    EDITED = 13
    EXTENDED = 14


ENDS = frozenset(
    {
        EventType.DONE,
        EventType.FAILED,
        EventType.DEAD_LETTERED,
        EventType.CANCELLED,
        EventType.SKIPPED,
        EventType.EXPIRED,
    }
)
# The kinds of which each task becomes one event.
SINGLE = {
    Kind.STARTED: EventType.STARTED,
    Kind.SCHEDULE_SKIPPED: EventType.SCHEDULE_SKIPPED,
    Kind.STAGE_DONE: EventType.STAGE_DONE,
    Kind.SUBMITTED: EventType.SUBMITTED,
    Kind.PROMOTED: EventType.PROMOTED,
    Kind.HELD: EventType.HELD,
    Kind.RELEASED: EventType.RELEASED,
    Kind.PAUSED: EventType.PAUSED,
    Kind.RESUMED: EventType.RESUMED,
    Kind.EDITED: EventType.EDITED,
    Kind.EXTENDED: EventType.EXTENDED,
}
_TYPES = {kind: frozenset({one}) for kind, one in SINGLE.items()} | {
    Kind.STARTED_LATE: frozenset({EventType.LATE, EventType.STARTED}),
    Kind.LATE: frozenset({EventType.LATE}),
    Kind.ENDED: ENDS,
}


def kinds_of(types: Collection[EventType]) -> list[Kind]:
    """The rows of the log that can become an event of one of these types."""
    return [kind for kind in Kind if not _TYPES[kind].isdisjoint(types)]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The details of what an owner did, in the row of the log."""

    user: str | None = None
    reason: str | None = None
    changes: dict[str, tuple[Any, Any]] | None = None  # field → before and after


@dataclass(frozen=True, slots=True, order=True)
class EventCursor:
    """A position in the log. Position 0: nothing of that row was read."""

    xid: int
    row: int = 0
    position: int = 0

    def __str__(self) -> str:
        return f"{self.xid}-{self.row}-{self.position}"

    @staticmethod
    def read(text: str) -> EventCursor | None:
        """None: the text is no cursor."""
        found = _CURSOR.fullmatch(text)
        if found is None:
            return None
        xid, row, position = (int(number) for number in found.groups())
        return EventCursor(xid, row, position) if max(xid, row, position) < 2**63 else None


_CURSOR = re.compile(r"(\d{1,19})-(\d{1,19})-(\d{1,19})", re.ASCII)
OLDEST = EventCursor(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    cursor: EventCursor
    type: EventType
    at: datetime
    task: int | None = None
    name: str | None = None
    attempt: int | None = None
    node: str | None = None
    state: str | None = None  # the final state, if the task has ended
    outcome: str | None = None
    limit: str | None = None  # the exceeded limit: cap, memory, disk, processes, files
    exit_code: int | None = None
    reason: str | None = None
    retry_after: float | None = None  # of a dropped task: seconds
    stage: StageDone | None = None  # the finished stage
    user: str | None = None  # who submitted, held, released, paused, resumed, edited or extended it
    changes: Mapping[str, tuple[Any, Any]] | None = None  # of an edit or an extension: before and after
    schedule: str | None = None
    scheduled_for: datetime | None = None
    until: datetime | None = None  # of a skip: it covers all instants before this one
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events are wanted; None: any."""

    types: frozenset[EventType] | None = None
    task: int | None = None
    schedule: str | None = None
    name: str | None = None
    tag: tuple[str, str] | None = None

    def wants(self, event: Event) -> bool:
        return (
            (self.types is None or event.type in self.types)
            and (self.task is None or event.task == self.task)
            and (self.schedule is None or event.schedule == self.schedule)
            and (self.name is None or event.name == self.name)
            and (self.tag is None or event.tags.get(self.tag[0]) == self.tag[1])
        )


LIMITS = {
    "timeout": "cap",
    "oom": "memory",
    "disk-limit": "disk",
    "pids-limit": "processes",
    "files-limit": "files",
}
