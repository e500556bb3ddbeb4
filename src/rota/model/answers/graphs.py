"""Graphs: submitted, listed, read, and changed as a whole."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import MayBeAbsent, Time
from rota.model.answers.tasks import ENDED_STATES


class SubmittedGraph(msgspec.Struct, frozen=True, kw_only=True):
    """`tasks`: ids by the names inside the graph."""

    id: int
    name: str = ""
    created: bool = True
    tasks: dict[str, int] = {}


class GraphTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a graph, with the tasks that it runs after."""

    id: int
    name: str
    state: str
    status: str = ""
    after: list[int] = []
    after_end: MayBeAbsent[list[int]] = []
    after_failed: MayBeAbsent[list[int]] = []
    started_at: Time | None = None
    ended_at: Time | None = None
    run_seconds: float | None = None
    exit_code: int | None = None
    reason: str | None = None
    retry_of: int | None = None
    parent: int | None = None  # the running task that submitted it

    @property
    def ended(self) -> bool:
        return self.state in ENDED_STATES

    @property
    def parents(self) -> list[int]:
        return [*self.after, *self.after_end, *self.after_failed]


class PathStep(msgspec.Struct, frozen=True, kw_only=True):
    """One task of the critical path: how long it waited once it could have started, and how long it ran."""

    id: int
    name: str
    state: str = ""
    waited_seconds: float = 0.0
    run_seconds: float = 0.0


class GraphSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A graph or an array, with its tasks counted by status and by state."""

    id: int
    name: str
    status: str
    user: str = ""
    size: int = 0
    counts: dict[str, int] = {}
    states: dict[str, int] = {}
    created_at: Time | None = None
    ended_at: Time | None = None
    array: bool = False
    rerun_of: int | None = None
    schedule: str | None = None
    scheduled_for: Time | None = None

    @property
    def ended(self) -> bool:
        return self.status not in ("waiting", "in progress")


class GraphDocument(GraphSummary, frozen=True, kw_only=True):
    """A graph with its tasks and its critical path."""

    tasks: list[GraphTask] = []
    critical_path: list[PathStep] = []


class GraphPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page, newest first. `next` is the cursor of the next page, null on the last."""

    graphs: list[GraphSummary]
    next: str | None = None


class GraphCancelled(msgspec.Struct, frozen=True, kw_only=True):
    """`cancelled` had not started; `cancelling` are being stopped."""

    id: int
    cancelled: list[int] = []
    cancelling: list[int] = []


class GraphHeld(msgspec.Struct, frozen=True, kw_only=True):
    """Of a hold: the tasks now held, and those that run and go on. Of a release: the released tasks."""

    id: int
    held: MayBeAbsent[list[int]] = []
    running: MayBeAbsent[list[int]] = []
    released: MayBeAbsent[list[int]] = []


class GraphAgain(msgspec.Struct, frozen=True, kw_only=True):
    """The graph of a retry or re-run, and its new tasks by name."""

    id: int
    tasks: dict[str, int] = {}
    rerun_of: MayBeAbsent[int | None] = None  # only of a re-run
