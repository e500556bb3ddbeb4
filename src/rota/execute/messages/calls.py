"""The two messages between the agent and a warm child: one call, one reply. Definitions only; cheap to import."""

from __future__ import annotations

import sys

import msgspec

from rota.model.attempt import Input
from rota.model.secret import SERVER_VARIABLE, Secret

# Descriptors of a child, as the keeper numbers them: 1 and 2 are its output pipes.
CHANNEL_DESCRIPTOR = 3
GO_AHEAD_DESCRIPTOR = 4
PROGRESS_DESCRIPTOR = 5
QUESTIONS_DESCRIPTOR = 6

GO_AHEAD = (1).to_bytes(8, sys.byteorder)  # as `os.eventfd_read` reads it
PACKAGE_VARIABLE = "ROTA_PACKAGE"  # in a child's environment: the folder of its functions' package
CANCEL = b"\xc1"  # followed by a call's number; no call begins with this byte
LEAVE = b""  # instead of a call: exit


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
    secrets: tuple[Secret, ...] = ()  # the ones it named
    inputs: tuple[Input, ...] = ()  # results of the tasks it depends on
    memory_bytes: int = 0  # its grant: the child retires when it has grown too large; 0: no limit
    devices: tuple[tuple[str, tuple[int, ...]], ...] = ()  # its devices of other kinds than GPUs
    server: str = ""  # the address for what it submits; "": it may not
    key: tuple[Secret, ...] = ()  # the key for that

    @property
    def masked(self) -> tuple[Secret, ...]:
        """The secrets that its result and its failure must not show."""
        return (*self.secrets, *self.key)


def told(call: Call) -> dict[str, str]:
    """The variables that tell a call where it may submit, and its key."""
    return {SERVER_VARIABLE: call.server} | {key.name: key.value for key in call.key} if call.key else {}


class Reply(msgspec.Struct, frozen=True, array_like=True):
    number: int  # 0: started and ready (or, with a failure, not able to start)
    outcome: int
    run_us: int
    output_pending: bool  # the child waits for the go-ahead before it reads its next call
    retire: bool  # the child has grown or served enough; send it no more calls
    result: bytes | None = None
    failure: tuple[str, str, str] | None = None
    cpu_us: int = 0
    peak_memory_bytes: int = 0
    retry_in_ms: int | None = None  # it asked to be retried then
    stale: bool = False  # not begun: the code on disk is newer than the loaded code; run it in a new child
    is_async: bool = False  # the function is `async def`: its calls may share a child
    sequential: bool = False  # not begun: it can't share a child with others
    # Output of a call that shared its child, in order: stream, how many bytes of it came before, bytes.
    output: tuple[tuple[int, int, bytes], ...] = ()
    grown_bytes: int = 0  # how much more memory the child holds than before its first call, at the last measurement
    written_bytes: int = 0  # written to disks; 0 for short calls
    stalled_us: int = 0  # how long its shared event loop was blocked by a call that did not await
