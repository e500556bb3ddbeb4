"""The frames between a server node and an agent, and their encoding. Nothing here sends or receives.

There are two WebSocket connections; each carries msgpack frames in binary messages. The *control* connection goes to
the pool's leader: the server sends `Welcome`, the agent `Hello`, the server `Registered`, the agent `Inventory`. The
*log* connection goes to any server node, so that bulk data can't delay a heartbeat. Frames about tasks carry batches.
A new field with a default at the end of a frame is compatible; any other change needs a new `PROTOCOL`.
"""

from __future__ import annotations

import msgspec

from rota.model.attempt import Input, Outcome
from rota.model.attempt import LogChunk as LogChunk
from rota.model.node import Closed
from rota.model.progress import ReportedProgress as ReportedProgress
from rota.model.resources import Resources
from rota.model.secret import Secret
from rota.model.task import Kind

PROTOCOL = 1  # the newest version this code speaks
OLDEST_PROTOCOL = 1  # the oldest version it accepts: N and N-1
MAX_FRAME_BYTES = 16 * 1024 * 1024
FRAME_TARGET_BYTES = 1024 * 1024  # senders split larger batches

RELOAD = "reload"  # the capability of agents that understand `Reload`
SUBMIT = "submit"  # the capability of agents that let tasks submit

CLOSE_BAD_PROTOCOL = 4400
CLOSE_NOT_YOURS = 4403  # the sender does not speak for the node that it names
CLOSE_TWIN = 4409  # another live agent has this node's name, or a newer boot of it connected
CLOSE_NOT_LEADER = 4421  # the agent must look up the leader again
CLOSE_NOT_UNDERSTOOD = 1007


class Frame(msgspec.Struct, tag=True, frozen=True, array_like=True):
    pass


# ---- server to agent -------------------------------------------------------------------------------------------


class Welcome(Frame, frozen=True):
    """The first frame of a control connection. The agent raises its `floor` to `epoch` before it does anything else."""

    protocol: int
    pool: str
    epoch: int
    database: str  # identity of the database; if it has changed, the agent drops its attempts
    heartbeat_seconds: float
    log_limit_bytes: int  # output kept per attempt
    result_limit_bytes: int


class Registered(Frame, frozen=True):
    """Answers `Hello`: the node's number and the attempts that the server has recorded for this boot.

    The agent answers with `Inventory`, whose `unknown` lists the expected attempts that it never received.
    """

    node: int
    expected: list[tuple[int, int]]


class Run(msgspec.Struct, frozen=True, array_like=True):
    """One authorised attempt. `spec` is the task's body as JSON, which only the agent parses."""

    task: int
    attempt: int
    tenant: int
    kind: Kind
    name: str
    shape: int  # key into `Start.shapes`
    cap_ms: int
    fence_ms: int  # it must have ended or be frozen this long after the *sending* of the last acknowledged heartbeat
    idempotency_key: str
    spec: bytes
    secrets: tuple[Secret, ...] = ()  # only for agents with the capability "secrets"
    inputs: tuple[Input, ...] = ()  # results of the tasks it depends on
    may_submit: bool = False  # the last of its secrets is the key of this attempt; only for agents with `SUBMIT`


class Start(Frame, frozen=True):
    epoch: int
    shapes: dict[int, Resources]
    runs: list[Run]


class Stop(Frame, frozen=True):
    """End these attempts: TERM, grace, KILL. The outcome is `cancelled` for the reason cancel, else `disrupted`."""

    epoch: int
    attempts: list[tuple[int, int]]
    reason: str  # cancel | pause | drain | preempt


class Recall(Frame, frozen=True):
    """Give back those attempts that have not started. The agent answers with `Recalled`.

    With a `number` it answers also if all of them have started: what it did not give back runs or has ended.
    """

    epoch: int
    attempts: list[tuple[int, int]]
    number: int = 0


class Caps(Frame, frozen=True):
    """New caps of running attempts: (task, attempt, milliseconds from its start)."""

    epoch: int
    caps: list[tuple[int, int, int]]


class Settled(Frame, frozen=True):
    """These results are durable; the agent may forget them."""

    attempts: list[tuple[int, int]]


class Alive(Frame, frozen=True):
    """Acknowledges a heartbeat. `sent` is the agent's monotonic time, returned unchanged."""

    epoch: int
    sent: float


class Drain(Frame, frozen=True):
    """Start nothing new and give back attempts that have not started. `is_over`: take work again."""

    epoch: int
    is_over: bool = False


class Reload(Frame, frozen=True):
    """Code was deployed: warm children finish their calls and are replaced. Only for agents with `RELOAD`."""

    epoch: int


# ---- agent to server -------------------------------------------------------------------------------------------


class Hello(Frame, frozen=True):
    protocol: int
    name: str
    boot: int  # a random 63-bit number of this agent process
    floor: int  # the highest epoch this agent has seen for this pool
    capacity: Resources
    labels: dict[str, str]
    capabilities: list[str]  # e.g. "cgroup", "functions", "secrets"
    version: str


class Inventory(Frame, frozen=True):
    """The attempts that run or wait on this boot, and those of `Registered.expected` that it never received.

    Attempts that are frozen and not among `Registered.expected` were given up: the agent kills them.
    """

    present: list[tuple[int, int]]
    unknown: list[tuple[int, int]]
    frozen: list[tuple[int, int]] = []  # those of `expected` that were frozen, and go on now


class Failure(msgspec.Struct, frozen=True, array_like=True):
    type: str  # exception class, or a slug such as "exit-code", "timeout", "no-such-program"
    message: str  # one sentence
    traceback: str = ""


class Result(msgspec.Struct, frozen=True, array_like=True):
    task: int
    attempt: int
    outcome: Outcome
    run_us: int  # how long it ran, without `frozen_us`
    result: bytes | None = None  # JSON
    exit_code: int | None = None
    failure: Failure | None = None
    cpu_ms: int = 0
    peak_memory_bytes: int = 0
    log: list[LogChunk] = []  # a little output that was not sent over the log connection
    log_bytes: int = 0  # output kept
    log_dropped_bytes: int = 0  # output beyond the limit
    written_bytes: int = 0  # to disks
    retry_in_ms: int | None = None  # the delay that the function (RETRY) or the node (DISRUPTED, RECALLED) asked for
    calls_per_grant: int = 1  # how many calls of this function may run concurrently on one grant
    saving_us: int = 0  # from the end of its run to this report: its files were being stored
    reported_at: float = 0.0  # the agent's monotonic time; 0: unknown
    frozen_us: int = 0  # how long it was frozen, because no leader acknowledged its node


class Results(Frame, frozen=True):
    """`sent` is the agent's monotonic time: a result that waited for a connection ended that much earlier."""

    results: list[Result]
    sent: float = 0.0


class Recalled(Frame, frozen=True):
    """Attempts that were given back. `number`: that of the last numbered `Recall`, which was carried out."""

    attempts: list[tuple[int, int]]
    number: int = 0


class Heartbeat(Frame, frozen=True):
    sent: float
    attempts: int  # running or waiting on this node
    is_closed: bool = False  # the node takes no new work
    is_leaving: bool = False  # it is closed because its agent leaves; else because its disk is full
    frozen: int = 0  # how many of the attempts are frozen

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
    """The newest progress of each attempt that reported some. Not acknowledged: a lost report is sent again."""

    reports: list[ReportedProgress]


class LogStored(Frame, frozen=True):
    number: int
    full: list[tuple[int, int]] = []  # attempts of which only the tail is taken from now on


ToAgent = Welcome | Registered | Start | Stop | Recall | Settled | Alive | Drain | Caps | Reload | LogStored
ToServer = Hello | Inventory | Results | Recalled | Heartbeat | LogBatch | ProgressBatch

_encoder = msgspec.msgpack.Encoder()
_to_agent: msgspec.msgpack.Decoder[ToAgent] = msgspec.msgpack.Decoder(ToAgent)
_to_server: msgspec.msgpack.Decoder[ToServer] = msgspec.msgpack.Decoder(ToServer)


class WireError(ValueError):
    """The bytes are not a known frame."""


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
