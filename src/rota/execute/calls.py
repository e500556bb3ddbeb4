"""The two messages between the agent and a warm child: one call, one reply. Shapes only; cheap to import."""

from __future__ import annotations

import msgspec

from rota.model.inputs import Input
from rota.model.secret import Secret

# Descriptors of a child, as the keeper lays them out: 1 and 2 are its output pipes.
CHANNEL_DESCRIPTOR = 3
GO_AHEAD_DESCRIPTOR = 4
BOARD_DESCRIPTOR = 5
DESK_DESCRIPTOR = 6

LEAVE = b""  # instead of a call: exit when you read this


class Call(msgspec.Struct, frozen=True, array_like=True):
    number: int
    task: int
    attempt: int
    idempotency_key: str
    name: str
    result_limit_bytes: int
    spec: bytes  # the run's spec, unparsed: only the child reads it
    ports: tuple[int, ...] = ()  # reserved for it
    gpus: tuple[int, ...] = ()  # devices it may use
    secrets: tuple[Secret, ...] = ()  # what it named
    inputs: tuple[Input, ...] = ()  # results of the tasks it depends on


class Reply(msgspec.Struct, frozen=True, array_like=True):
    number: int  # 0 says: started and ready (or, with a failure, not able to start)
    outcome: int
    run_us: int
    output_pending: bool  # the child waits for the go-ahead before it reads its next call
    retire: bool  # it has grown or served enough; send it nothing more
    result: bytes | None = None
    failure: tuple[str, str, str] | None = None
    cpu_us: int = 0
    peak_memory_bytes: int = 0
    retry_in_ms: int | None = None  # it asked to be tried again then
