"""The two messages between the agent and a warm child: one call, one reply. Shapes only; cheap to import."""

from __future__ import annotations

import sys

import msgspec

from rota.model.attempt import Input
from rota.model.secret import Secret

# Descriptors of a child, as the keeper lays them out: 1 and 2 are its output pipes.
CHANNEL_DESCRIPTOR = 3
GO_AHEAD_DESCRIPTOR = 4
BOARD_DESCRIPTOR = 5
QUESTIONS_DESCRIPTOR = 6

GO_AHEAD = (1).to_bytes(8, sys.byteorder)  # as `os.eventfd_read` reads it
PACKAGE_VARIABLE = "ROTA_PACKAGE"  # of a child's environment: the folder its functions' code came in
CANCEL = b"\xc1"  # with a call's number behind it: a byte that no call begins with
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
    memory_bytes: int = 0  # its grant, by which a child knows when it has grown too large; 0: nobody said
    devices: tuple[tuple[str, tuple[int, ...]], ...] = ()  # of other kinds than GPUs, those it may use


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
    stale: bool = False  # not begun: the code on disk is newer than what was loaded; run it in a new child
    is_async: bool = False  # the function is `async def`: its calls may share a child
    sequential: bool = False  # not begun: it can't share a child with others
    output: tuple[tuple[int, bytes], ...] = ()  # what a call that shared its child has printed: stream, bytes
    output_dropped_bytes: int = 0
    grown_bytes: int = 0  # how much more the child holds than before its first call, as last weighed
    written_bytes: int = 0  # to disks; of calls that are not short
    stalled_us: int = 0  # while it shared its child, a call that did not await kept all of them from going on so long
