"""How an attempt ended, as its agent (or the leader, for a lost one) reports it, and what it printed."""

from __future__ import annotations

import enum

import msgspec


class Outcome(enum.IntEnum):
    OK = 1  # exit code 0, or the function returned
    ERROR = 2  # non-zero exit code, or the function raised
    TIMEOUT = 3  # ran longer than its execution cap
    CANCELLED = 4  # stopped because its owner asked
    LOST = 5  # its node went away, or could not say how it ended
    RECALLED = 6  # taken back before it started; uses up no attempt
    REFUSED = 7  # the agent could not start it (no such program, folder, function, disk full)
    CRASHED = 8  # the function's process ended under it
    BAD_RESULT = 9  # the function returned something that is not JSON, or too large
    DISRUPTED = 10  # ended by drain, preemption or a control-plane outage; uses up no attempt
    NEVER = 11  # ended without an attempt: cancelled, skipped or expired while waiting
    RETRY = 12  # the function asked to be tried again later; uses up an attempt

    @property
    def label(self) -> str:
        return self.name.lower()


class LogChunk(msgspec.Struct, frozen=True, array_like=True):
    """A piece of output. `seq` counts 0, 1, 2, … per attempt over both streams, without gaps."""

    task: int
    attempt: int
    seq: int
    stream: int  # 1 stdout, 2 stderr
    data: bytes
