"""Which task is running here: for functions that want to know their task's id, attempt, idempotency key, ports
or GPUs.

    from rota.execute.context import current
    current().idempotency_key   # the same on every attempt of one task

Set by the child around each call. One call runs at a time per process, so one variable serves all its
threads.
"""

from __future__ import annotations

from contextvars import ContextVar

import msgspec

from rota.model.secret import SecretMap

NO_SECRETS = SecretMap()


class TaskContext(msgspec.Struct, frozen=True):
    task_id: int
    attempt: int
    idempotency_key: str
    name: str
    ports: tuple[int, ...] = ()  # TCP ports that are this attempt's alone
    gpus: tuple[int, ...] = ()  # GPUs it may use, whole or its part of one
    secrets: SecretMap = NO_SECRETS  # values by name, of those the task named; also in the environment


class NotInTask(RuntimeError):
    """`current()` was called in a process that is not running a Rota function."""


_current: TaskContext | None = None
_here: ContextVar[TaskContext | None] = ContextVar("rota task", default=None)  # where calls share a process


def current() -> TaskContext:
    found = _here.get() or _current
    if found is None:
        raise NotInTask("there is no current task: current() works only inside a function that Rota is running")
    return found


def enter(context: TaskContext | None) -> None:
    """For the child program only."""
    global _current
    _current = context


def enter_here(context: TaskContext) -> None:
    """For a child that runs several calls at once: in this context of execution only."""
    _here.set(context)
