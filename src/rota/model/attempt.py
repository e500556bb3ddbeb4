"""What goes into an attempt and what comes out: results of the tasks it depends on, its output, its outcome."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from rota.model.task import Labelled

MOST_INPUT_BYTES = 32 * 1024  # of one result; a larger one is fetched by the task that needs it
MOST_INPUT_BYTES_A_TASK = 512 * 1024  # of all results: they travel in the start frame and the environment

TAIL_SEQ = 2**30  # chunks from this number on are the end of long output: newer ones replace older ones

_NOT_A_NAME = re.compile("[^A-Z0-9]")


class Outcome(Labelled):
    OK = 1  # exit code 0, or the function returned
    ERROR = 2  # non-zero exit code, or the function raised
    TIMEOUT = 3  # ran longer than its execution cap
    CANCELLED = 4  # stopped for its owner
    LOST = 5  # its node is gone, or does not know how it ended
    RECALLED = 6  # taken back before it started; uses up no attempt
    REFUSED = 7  # the agent could not start it (no such program, folder, function, disk full)
    CRASHED = 8  # the function's process ended
    BAD_RESULT = 9  # the function's return value is not JSON, or too large
    DISRUPTED = 10  # ended by drain, preemption or a control-plane outage; uses up no attempt
    NEVER = 11  # ended without an attempt: cancelled, skipped or expired while waiting
    RETRY = 12  # the function asked to be tried again later; uses up an attempt


class Replaced(msgspec.Struct, frozen=True, array_like=True):
    """Chunks of one stream, from `first` to the one before `before`, that newer ones have replaced."""

    stream: int
    first: int
    before: int


class LogChunk(msgspec.Struct, frozen=True, array_like=True):
    """A piece of output. `seq` counts 0, 1, 2, … per attempt over both streams, without gaps, up to `TAIL_SEQ`."""

    task: int
    attempt: int
    seq: int
    stream: int  # 1 stdout, 2 stderr
    data: bytes
    offset: int = -1  # how many bytes of its stream came before; -1: unknown, from an older agent
    replaced: tuple[Replaced, ...] = ()  # chunks to delete once this one is stored


class Input(msgspec.Struct, frozen=True, array_like=True):
    """The result of a parent task, given to the task that depends on it."""

    task: int
    name: str
    result: bytes | None  # JSON; None: too large to be sent


def input_variables(inputs: Iterable[Input]) -> dict[str, str]:
    """`ROTA_RESULT_<NAME>` and `ROTA_RESULT_<ID>`. Ids come last: a task named "7" can't stand in for task 7."""
    given = [(one, one.result.decode()) for one in inputs if one.result is not None]
    by_name = {f"ROTA_RESULT_{_NOT_A_NAME.sub('_', one.name.upper())}": text for one, text in given}
    return by_name | {f"ROTA_RESULT_{one.task}": text for one, text in given}
