"""Operations: one change of all tasks that a filter selects. The request, and what it means once names are resolved.

An operation matches exactly the tasks that its verb would change: of the ended ones a retry takes only those that were
not retried yet. It never touches a task that was submitted after it.
"""

from __future__ import annotations

import enum
from datetime import datetime

import msgspec
from msgspec import UNSET, UnsetType

from rota.model.request.edit import Amount, EditRequest
from rota.model.task import State


class Verb(enum.StrEnum):
    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    RETRY = "retry"
    EDIT = "edit"
    REQUEUE = "requeue"  # dead letters
    DISCARD = "discard"

    @property
    def of_dead_letters(self) -> bool:
        return self in (Verb.REQUEUE, Verb.DISCARD)

    @property
    def makes_tasks(self) -> bool:
        return self in (Verb.RETRY, Verb.REQUEUE)


_WAITING = (State.BLOCKED, State.DELAYED, State.READY)

# The states that a verb applies to.
APPLIES_TO: dict[Verb, tuple[State, ...]] = {
    Verb.CANCEL: (*_WAITING, State.RUNNING, State.PAUSED),
    Verb.HOLD: _WAITING,
    Verb.RELEASE: (State.PAUSED,),
    Verb.EDIT: (*_WAITING, State.PAUSED),
    Verb.RETRY: (State.FAILED, State.CANCELLED, State.SKIPPED, State.EXPIRED),
    Verb.REQUEUE: (State.FAILED,),
    Verb.DISCARD: (State.FAILED,),
}
# Without a filter by state a retry means what went wrong, not what its owner cancelled.
BY_DEFAULT: dict[Verb, tuple[State, ...]] = {**APPLIES_TO, Verb.RETRY: (State.FAILED, State.EXPIRED)}


class OperationState(enum.IntEnum):
    """How far an operation is; the numbers of its row."""

    RUNNING = 1
    DONE = 2
    STOPPED = 3  # by its owner; what was changed stays changed
    FAILED = 4  # by an error of a server node

    @property
    def label(self) -> str:
        return self.name.lower()


class OperationWhere(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A filter. `state`, `status` and `worker` are of tasks; `reason` and `over` of dead letters.

    `since` and `until` select by the time of submission, of dead letters by the time of death: 10m ago, or a time.
    """

    name: str | None = None
    tag: str | None = None  # name:value
    state: str | None = None  # several with commas
    status: str | None = None
    user: str | None = None
    schedule: str | None = None
    graph: int | None = None
    worker: str | None = None
    since: str | None = None
    until: str | None = None
    reason: str | None = None  # part of the text
    over: str | None = None  # the limit that was exceeded


class OperationChanges(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The new values of an edit, and the reason of any operation. Fields that are left out stay as they are."""

    priority: int | UnsetType = UNSET
    lane: str | UnsetType = UNSET
    cap: Amount | UnsetType = UNSET
    tolerance: Amount | UnsetType = UNSET
    pool: str | UnsetType = UNSET
    at: str | UnsetType = UNSET
    delay: Amount | UnsetType = UNSET
    reason: str | UnsetType = UNSET

    def given(self) -> dict[str, str | int | float]:
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not UNSET}

    def edit(self) -> EditRequest:
        return EditRequest(**{name: value for name, value in msgspec.structs.asdict(self).items() if name != "reason"})


class OperationRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`where` selects the tasks; without any filter, `all` must be true. `dry_run` only counts them, at the time `at`.

    `before` (the `at` of a dry run): no task that was submitted later, no letter of a task that died later.
    """

    verb: str
    where: OperationWhere | None = None
    all: bool = False
    changes: OperationChanges | None = None
    before: str | None = None
    dry_run: bool = False


class Selection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A filter with names resolved. None means any."""

    states: tuple[int, ...]
    until: datetime
    since: datetime | None = None
    name: str | None = None
    tag: tuple[str, str] | None = None
    user: str | None = None
    schedule: int | None = None
    graph: int | None = None
    nodes: tuple[int, ...] | None = None  # a name may be used in several pools
    reason: str | None = None
    failure: str | None = None  # the type of the last failure
