"""Dead letters: listed, read with their history, counted, requeued and discarded."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rota.model.answers.fields import Time
from rota.model.answers.task_changes import RefusedTask
from rota.model.answers.tasks import AttemptDocument, TaskDocument


class DeadLetterSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A task that used up its attempts."""

    id: int
    name: str | None = None
    kind: str = ""
    state: str = "failed"
    status: str = "failed"
    reason: str | None = None
    died_at: Time | None = None
    created_at: Time | None = None
    user: str = ""
    pool: str = ""
    attempts: int = 1
    attempt: int = 0
    exit_code: int | None = None
    tags: dict[str, str] = {}


class DeadLetterPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page, newest first. `next` is the cursor of the next page, null on the last."""

    tasks: list[DeadLetterSummary]
    next: str | None = None

    def __iter__(self) -> Iterator[DeadLetterSummary]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)


class RunDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One of the linked runs of the same work."""

    id: int
    state: str | None = None
    reason: str | None = None
    ended_at: Time | None = None


class DeadLetterDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter with its history: the task, its attempts, and all linked runs, oldest first."""

    id: int
    reason: str
    died_at: Time
    task: TaskDocument
    attempts: list[AttemptDocument] = []
    runs: list[RunDocument] = []


class Requeued(msgspec.Struct, frozen=True, kw_only=True, rename={"new_id": "as"}):
    """A dead letter and the new task that runs it again."""

    id: int
    new_id: int


class RequeueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The new tasks, and the dead letters that could not be requeued."""

    requeued: list[Requeued] = []
    refused: list[RefusedTask] = []


class DiscardAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the discarded dead letters, and those that were none (any more)."""

    discarded: list[int] = []
    refused: list[RefusedTask] = []
