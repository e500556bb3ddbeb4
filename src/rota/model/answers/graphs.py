"""Graphs: submitted, read, listed, and changed as a whole."""

from __future__ import annotations

from datetime import datetime

import msgspec

from rota.model.answers.tasks import ENDED_STATES


class SubmittedGraph(msgspec.Struct, frozen=True, kw_only=True):
    """`tasks`: ids by the names inside the graph."""

    id: int
    name: str = ""
    created: bool = True
    tasks: dict[str, int] = {}


class GraphTask(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    name: str
    state: str
    status: str = ""
    after: list[int] = []
    after_end: list[int] = []
    after_failed: list[int] = []
    started_at: datetime | None = None
    ended_at: datetime | None = None
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


class GraphDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A graph; in a list without its tasks."""

    id: int
    name: str
    status: str
    user: str = ""
    size: int = 0
    counts: dict[str, int] = {}  # by status
    states: dict[str, int] = {}
    created_at: datetime | None = None
    ended_at: datetime | None = None
    array: bool = False
    rerun_of: int | None = None
    schedule: str | None = None  # what made it
    scheduled_for: datetime | None = None
    tasks: list[GraphTask] = []
    critical_path: list[PathStep] = []

    @property
    def ended(self) -> bool:
        return self.status not in ("waiting", "in progress")


class GraphPage(msgspec.Struct, frozen=True, kw_only=True):
    graphs: list[GraphDocument]
    next: str | None = None


class GraphCancelled(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    cancelled: list[int] = []
    cancelling: list[int] = []


class GraphHeld(msgspec.Struct, frozen=True, kw_only=True):
    """Of a hold: what is held back now, and what runs and goes on. Of a release: what goes on again."""

    id: int
    held: list[int] = []
    running: list[int] = []
    released: list[int] = []


class GraphAgain(msgspec.Struct, frozen=True, kw_only=True):
    """A retry's or re-run's graph, and the new tasks by name."""

    id: int
    tasks: dict[str, int] = {}
    rerun_of: int | None = None
