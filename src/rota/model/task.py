"""A task's states and the one table of legal transitions.

Every change of a task's state obeys `TRANSITIONS`. The database trigger for tests and the drawing in docs/lifecycle.md
are generated from it. PostgreSQL stores the numbers; people see the names.
"""

from __future__ import annotations

import enum


class Labelled(enum.IntEnum):
    """A number in the database, a label for people."""

    @property
    def label(self) -> str:
        return self.name.lower()


class State(Labelled):
    BLOCKED = 1  # waits for other tasks
    DELAYED = 2  # not before a time: asked for, or backing off after a failed attempt
    READY = 3  # may start as soon as a node has free resources
    RUNNING = 4  # authorised on a node
    PAUSED = 5  # held back by its owner
    DONE = 10
    FAILED = 11  # used up its attempts: a dead letter
    CANCELLED = 12
    SKIPPED = 13  # a task it depends on did not end as required
    EXPIRED = 14  # dropped at its start-by time, by the client's choice

    @property
    def terminal(self) -> bool:
        return self >= State.DONE


LIVE = tuple(state for state in State if not state.terminal)
TERMINAL = tuple(state for state in State if state.terminal)

TRANSITIONS: dict[State, frozenset[State]] = {
    State.BLOCKED: frozenset({State.READY, State.DELAYED, State.PAUSED, State.SKIPPED, State.CANCELLED}),
    State.DELAYED: frozenset({State.READY, State.RUNNING, State.PAUSED, State.CANCELLED, State.EXPIRED}),
    State.READY: frozenset({State.RUNNING, State.DELAYED, State.PAUSED, State.CANCELLED, State.EXPIRED}),
    State.RUNNING: frozenset({State.READY, State.DELAYED, State.PAUSED, State.DONE, State.FAILED, State.CANCELLED}),
    State.PAUSED: frozenset({State.READY, State.DELAYED, State.BLOCKED, State.CANCELLED}),
    **{state: frozenset() for state in TERMINAL},
}


class Status(enum.StrEnum):
    """The five statuses that people see."""

    WAITING = "waiting"
    IN_PROGRESS = "in progress"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


STATUS: dict[State, Status] = {
    State.BLOCKED: Status.WAITING,
    State.DELAYED: Status.WAITING,
    State.READY: Status.WAITING,
    State.PAUSED: Status.WAITING,
    State.RUNNING: Status.IN_PROGRESS,
    State.DONE: Status.DONE,
    State.FAILED: Status.FAILED,
    State.CANCELLED: Status.CANCELLED,
    State.SKIPPED: Status.CANCELLED,
    State.EXPIRED: Status.CANCELLED,
}


class Kind(Labelled):
    COMMAND = 1
    SCRIPT = 2
    FUNCTION = 3


class Scheduling(Labelled):
    """Why a task starts when it does (R33)."""

    NOW = 1
    AT = 2  # not before a given time
    DEPENDENT = 3  # after other tasks
    RETRY = 4  # a new run of a task that had ended
    SCHEDULE = 5  # a run of a schedule


class Lane(enum.IntEnum):
    """The numbers of the default lanes."""

    URGENT = 0
    NORMAL = 1
    PERIODIC = 2
    OFF_PEAK = 3

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")


class Upstream(Labelled):
    """The rule for a parent: it must be done (SKIP otherwise), have ended in any way (RUN), or have failed."""

    SKIP = 1
    RUN = 2
    FAILED = 3

    def met_by(self, end: State) -> bool:
        """Whether a parent that ended so lets its dependent run; else the dependent is skipped."""
        return self is Upstream.RUN or end is (State.FAILED if self is Upstream.FAILED else State.DONE)
