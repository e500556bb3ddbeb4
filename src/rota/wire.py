"""Messages between a server node and an agent: shapes, encode and decode, nothing else.

Two WebSocket connections, each carrying msgpack frames in binary messages. The *control* connection goes to the
pool's leader; the server speaks first (`Welcome`), the agent answers `Hello`, then `Inventory`. The *log* connection
goes to any server node, so that bulk can't delay a heartbeat. A frame holds a batch wherever tasks are concerned.
Adding a field with a default at the end of a frame is compatible; anything else needs a new `PROTOCOL`.
"""

from __future__ import annotations

import msgspec

from rota.model.attempt import Input, Outcome
from rota.model.attempt import LogChunk as LogChunk
from rota.model.node import Closed
from rota.model.progress import Said as Said
from rota.model.resources import Resources
from rota.model.secret import Secret
from rota.model.task import Kind

PROTOCOL = 1  # what this code speaks best
OLDEST_PROTOCOL = 1  # what it still understands: N and N-1
MAX_FRAME_BYTES = 16 * 1024 * 1024
FRAME_TARGET_BYTES = 1024 * 1024  # senders split batches around this size

RELOAD = "reload"  # the capability of agents that understand `Reload`

CLOSE_BAD_PROTOCOL = 4400
CLOSE_TWIN = 4409  # another live agent has this node's name, or a newer boot of it connected
CLOSE_NOT_LEADER = 4421  # ask for the leader again
CLOSE_NOT_UNDERSTOOD = 1007


class Frame(msgspec.Struct, tag=True, frozen=True, array_like=True):
    pass


# ---- server to agent -------------------------------------------------------------------------------------------


class Welcome(Frame, frozen=True):
    """First frame of a control connection. The agent raises its floor to `epoch` before anything else."""

    protocol: int
    pool: str
    epoch: int
    database: str  # identity of the database; a changed one makes the agent drop what it runs
    heartbeat_seconds: float
    log_limit_bytes: int  # output kept per attempt
    result_limit_bytes: int


class Registered(Frame, frozen=True):
    """Answer to `Hello`: the node's number and the attempts the server believes are on this boot.

    The agent answers with `Inventory`; an attempt listed here that it never got is reported in `unknown`.
    """

    node: int
    expected: list[tuple[int, int]]


class Run(msgspec.Struct, frozen=True, array_like=True):
    """One authorised attempt. `spec` is the task's body as JSON; the agent parses it, the server never does."""

    task: int
    attempt: int
    tenant: int
    kind: Kind
    name: str
    shape: int  # key into `Start.shapes`
    cap_ms: int
    fence_ms: int  # it must be dead this long after the *sending* of the last acknowledged heartbeat
    idempotency_key: str
    spec: bytes
    secrets: tuple[Secret, ...] = ()  # only to agents that say they can keep them
    inputs: tuple[Input, ...] = ()  # results of the tasks it depends on, those that are not too large


class Start(Frame, frozen=True):
    epoch: int
    shapes: dict[int, Resources]
    runs: list[Run]


class Stop(Frame, frozen=True):
    """End these attempts. Running ones get TERM, grace, KILL; the result says `cancelled`, or else `disrupted`."""

    epoch: int
    attempts: list[tuple[int, int]]
    reason: str  # cancel | pause | drain | preempt


class Recall(Frame, frozen=True):
    """Give back the ones of these that have not started. The agent answers `Recalled` with those it gave back."""

    epoch: int
    attempts: list[tuple[int, int]]


class Caps(Frame, frozen=True):
    """These attempts may run so long now, in milliseconds from their start: (task, attempt, cap)."""

    epoch: int
    caps: list[tuple[int, int, int]]


class Settled(Frame, frozen=True):
    """These results are durable; the agent may forget them."""

    attempts: list[tuple[int, int]]


class Alive(Frame, frozen=True):
    """Acknowledges a heartbeat; `sent` is the agent's own monotonic time, returned unchanged."""

    epoch: int
    sent: float


class Drain(Frame, frozen=True):
    """Start nothing new; give back what has not started. Running attempts finish. `over`: work is taken again."""

    epoch: int
    over: bool = False


class Reload(Frame, frozen=True):
    """Code was deployed: warm children finish what they have and are replaced. Only for agents that can (`RELOAD`)."""

    epoch: int


# ---- agent to server -------------------------------------------------------------------------------------------


class Hello(Frame, frozen=True):
    protocol: int
    name: str
    boot: int  # random 63-bit number, new for every agent process
    floor: int  # highest epoch ever seen for this pool
    capacity: Resources
    labels: dict[str, str]
    capabilities: list[str]  # e.g. "cgroup", "functions", "secrets"
    version: str


class Inventory(Frame, frozen=True):
    """What this boot holds: attempts running or waiting for room, and those of `Registered.expected` it never got."""

    held: list[tuple[int, int]]
    unknown: list[tuple[int, int]]


class Failure(msgspec.Struct, frozen=True, array_like=True):
    type: str  # exception class, or a slug such as "exit-code", "timeout", "no-such-program"
    message: str  # one sentence
    traceback: str = ""


class Result(msgspec.Struct, frozen=True, array_like=True):
    task: int
    attempt: int
    outcome: Outcome
    run_us: int  # how long it really ran
    result: bytes | None = None  # JSON
    exit_code: int | None = None
    failure: Failure | None = None
    cpu_ms: int = 0
    peak_memory_bytes: int = 0
    log: list[LogChunk] = []  # what was not sent over the log connection; small
    log_bytes: int = 0  # all output kept
    log_dropped_bytes: int = 0  # output past the limit
    written_bytes: int = 0  # to disks
    retry_in_ms: int | None = None  # it asked (RETRY), or its node did (DISRUPTED), to be tried again then
    calls_per_grant: int = 1  # so many calls of this function run at the same time within one grant


class Results(Frame, frozen=True):
    results: list[Result]


class Recalled(Frame, frozen=True):
    attempts: list[tuple[int, int]]


class Heartbeat(Frame, frozen=True):
    sent: float
    held: int  # attempts running or waiting on this node
    is_closed: bool = False  # it gives back what it is sent
    is_leaving: bool = False  # because it is about to go; else because its disk is full. Older agents never say which

    @property
    def closed_for(self) -> Closed | None:
        if not self.is_closed:
            return None
        return Closed.LEAVING if self.is_leaving else Closed.FULL


# ---- log connection --------------------------------------------------------------------------------------------


class LogBatch(Frame, frozen=True):
    number: int
    chunks: list[LogChunk]


class ProgressBatch(Frame, frozen=True):
    """The latest of each attempt that said something new. Not acknowledged: what is lost is said again."""

    said: list[Said]


class LogStored(Frame, frozen=True):
    number: int


ToAgent = Welcome | Registered | Start | Stop | Recall | Settled | Alive | Drain | Caps | Reload | LogStored
ToServer = Hello | Inventory | Results | Recalled | Heartbeat | LogBatch | ProgressBatch

_encoder = msgspec.msgpack.Encoder()
_to_agent: msgspec.msgpack.Decoder[ToAgent] = msgspec.msgpack.Decoder(ToAgent)
_to_server: msgspec.msgpack.Decoder[ToServer] = msgspec.msgpack.Decoder(ToServer)


class WireError(ValueError):
    """The bytes are not a frame we know."""


def encode(frame: Frame) -> bytes:
    return _encoder.encode(frame)


def decode_to_agent(data: bytes) -> ToAgent:
    try:
        return _to_agent.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise WireError(str(error)) from error


def decode_to_server(data: bytes) -> ToServer:
    try:
        return _to_server.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise WireError(str(error)) from error
