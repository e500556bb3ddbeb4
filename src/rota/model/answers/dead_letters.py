"""Dead letters: one with its history, how many a request is about, requeued and discarded ones."""

from __future__ import annotations

from datetime import datetime

import msgspec

from rota.model.answers.tasks import AttemptDocument, RefusedTask, TaskDocument


class RunDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the same work."""

    id: int
    state: str | None = None
    reason: str | None = None
    ended_at: datetime | None = None


class DeadDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter with its whole history: the task, every attempt, and all linked runs, oldest first."""

    id: int
    reason: str
    died_at: datetime
    task: TaskDocument
    attempts: list[AttemptDocument] = []
    runs: list[RunDocument] = []


class DeadCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many a request would be about, and the newest of them; `at`: as of when."""

    count: int
    or_more: bool = False
    ids: list[int] = []
    at: datetime | None = None


class Requeued(msgspec.Struct, frozen=True, kw_only=True, rename={"new_id": "as"}):
    id: int
    new_id: int


class RequeueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    requeued: list[Requeued] = []
    refused: list[RefusedTask] = []


class DiscardAnswer(msgspec.Struct, frozen=True, kw_only=True):
    discarded: list[int] = []
