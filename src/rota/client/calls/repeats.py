"""What the answer to a repeated request means if an earlier try may have done its work: its answer was lost.

Each function gets the status and the body of the later answer, and returns the body that the lost one had, or None if
the later answer stands. Pure.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from rota.model.answers.problems import ProblemDocument
from rota.model.answers.task_changes import CancelAnswer, CancelManyAnswer, Retried
from rota.model.task import STATUS, State

Document = TypeVar("Document")

_CANCELLED = State.CANCELLED.label


def removed(status: int, body: bytes) -> bytes | None:
    """It is gone, as it was to be."""
    return b"" if status == 404 else None


def cancelled(task_id: int, status: int, body: bytes) -> bytes | None:
    problem = _read(body, ProblemDocument) if status == 409 else None
    if problem is None or problem.state != _CANCELLED:
        return None
    return msgspec.json.encode(CancelAnswer(id=task_id, state=_CANCELLED, status=STATUS[State.CANCELLED].value))


def cancelled_many(status: int, body: bytes) -> bytes | None:
    """Tasks that were refused because they are cancelled already."""
    answer = _read(body, CancelManyAnswer) if status == 200 else None
    if answer is None:
        return None
    before = [one.id for one in answer.refused if one.state == _CANCELLED]
    return msgspec.json.encode(
        CancelManyAnswer(
            cancelled=sorted(answer.cancelled + before),
            cancelling=answer.cancelling,
            refused=[one for one in answer.refused if one.state != _CANCELLED],
        )
    )


def retried(task_id: int, status: int, body: bytes) -> bytes | None:
    """A task is retried once only, and the refusal names the task that was made."""
    problem = _read(body, ProblemDocument) if status == 409 else None
    if problem is None or problem.retried_as is None:
        return None
    return msgspec.json.encode(Retried(id=problem.retried_as, retry_of=task_id))


def _read(body: bytes, kind: type[Document]) -> Document | None:
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except msgspec.MsgspecError:
        return None  # a proxy's page
