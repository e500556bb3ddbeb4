"""Changes of tasks: cancelled, paused, held, released, extended, run again."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import MayBeAbsent


class CancelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`cancelling`: the task still runs, and is being stopped."""

    id: int
    state: str
    status: str = ""
    cancelling: bool = False


class RefusedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that the request does not apply to, and why."""

    id: int
    reason: str = ""
    state: MayBeAbsent[str] = ""  # absent of an unknown task


class CancelManyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`cancelled` had not started; `cancelling` are being stopped; `refused` had ended or do not exist."""

    cancelled: list[int] = []
    cancelling: list[int] = []
    refused: list[RefusedTask] = []


class PauseAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`pausing`: the task still runs, and is asked to save its state and stop."""

    id: int
    state: str
    status: str = ""
    pausing: bool = False


class HoldAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`held` or `released` are in the requested state; `refused` run, have ended, or do not exist."""

    held: MayBeAbsent[list[int]] = []  # of a hold
    released: MayBeAbsent[list[int]] = []  # of a release
    refused: list[RefusedTask] = []


class Extended(msgspec.Struct, frozen=True, kw_only=True):
    """A task with its new cap."""

    id: int
    cap_seconds: float
    state: str = ""
    status: str = ""


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    """The new task that runs an ended one again."""

    id: int
    retry_of: int
