"""A leader's memory of its pool: the core, the sessions, and every attempt that is authorised and not settled.

One event loop owns all of it: the leader's loops (cycle, settling, watch) change it between awaits. Its parts are split
by owner and lifetime. A leader that steps down drops the whole object: PostgreSQL has everything to build the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from rota.attempt_key import AttemptKeys
from rota.cluster.leases import Lease
from rota.decide.core import Core
from rota.decide.messages import AttemptEnded, NodeLeft
from rota.dispatch.loader import Loader
from rota.dispatch.session import Session
from rota.model.attempt import Outcome
from rota.model.audit import SecretUse
from rota.model.task import State
from rota.settings import Settings
from rota.settle.settlement import Reported
from rota.store.key_file import KeyFile
from rota.store.nodes import NodeReport
from rota.store.queue import Fence
from rota.wire import Failure, Result

MOST_RESULTS = 2_000  # settled in one transaction


Key = tuple[int, int]  # task, attempt


class Authorised(msgspec.Struct, gc=False):
    """An attempt that is running according to the database, until its settlement commits."""

    task: int
    attempt: int
    node: int
    boot: int
    grace_ms: int
    at: float  # monotonic: when this leader authorised or adopted it
    reported: bool = False  # its result waits for settlement
    stop_sent: int = 0  # the connection through which its node was told to stop it
    cap_sent: tuple[int, int] = (0, 0)  # the connection and the changed cap sent through it

    def is_of(self, task: int, attempt: int, boot: int) -> bool:
        """Whether a report of this attempt, from this boot of its node, is about it. Any other report is too late."""
        return self.attempt == attempt and self.boot == boot


@dataclass(slots=True)
class Wakes:
    """How the loops wake each other, and what they ask of each other."""

    cycle: asyncio.Event = field(default_factory=asyncio.Event)
    settle: asyncio.Event = field(default_factory=asyncio.Event)
    poll: asyncio.Event = field(default_factory=asyncio.Event)  # a timer, or a hinted poll, is due before the next poll
    poll_hinted: bool = False  # rows changed that only the slow poll reads
    poll_due: bool = False  # the cycle reads every tenant from its head again
    freed: int = 0  # attempts that ended since the last plan

    def poll_soon(self) -> None:
        self.poll_hinted = True
        self.poll.set()


@dataclass(slots=True, eq=False)
class RecallRequest:
    """What to take back from nodes if it has not begun: of one tenant, on one node, or of the whole pool."""

    tenant: int | None = None
    node: int | None = None
    number: int = 0  # of the recall that was sent for it; 0: none yet
    asked: list[tuple[Session | None, list[Key]]] = field(default_factory=list)  # None: the node is not connected

    def affects(self, tenant: int, node: int) -> bool:
        return self.tenant in (None, tenant) and self.node in (None, node)


@dataclass(slots=True)
class Unsettled:
    """The settling loop's queue."""

    reports: deque[Reported] = field(default_factory=deque)
    dependents: deque[int] = field(default_factory=deque)  # tasks whose dependencies have ended: to be released
    batch_limit: int = MOST_RESULTS  # smaller for a while after the database refused a batch


@dataclass(slots=True)
class Polled:
    """Kept by the slow poll from one round to the next."""

    unsaved_reports: dict[int, NodeReport] = field(default_factory=dict)  # node → its last report, until its row has it
    watching_keys: bool = False  # a key counted across pools kept tasks waiting at the last poll
    run_times_saved: dict[tuple[int, int], int] = field(default_factory=dict)  # (tenant, work) → µs


@dataclass(slots=True)
class Counters:
    """For /metrics, since this term began."""

    started: int = 0
    settled: int = 0
    superseded: int = 0
    thawed: int = 0


@dataclass(slots=True)
class PoolState:
    # Fixed for the term.
    id: int
    name: str
    lease: Lease
    settings: Settings
    core: Core
    loader: Loader
    database_identity: str
    attempt_keys: AttemptKeys
    on_ended: Callable[[list[tuple[int, State]]], None]  # wakes clients that wait on this server node
    on_other_pools: Callable[[Iterable[int]], None]  # these pools have dependents to release
    secret_keys: KeyFile | None = None  # None: this server node can open no secrets
    on_secrets_used: Callable[[SecretUse], None] = lambda _: None  # for the audit log
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    began_at: float = 0.0  # set below, from `clock`
    # From one node's connection or attempt to the next.
    sessions: dict[int, Session] = field(default_factory=dict)
    attempts: dict[int, Authorised] = field(default_factory=dict)
    heard_at: dict[int, float] = field(default_factory=dict)  # node → monotonic
    names: dict[int, str] = field(default_factory=dict)  # of nodes that are or were connected in this term
    clock_offset_us: int = 0  # database clock minus our monotonic one
    rules: int = -1  # the version of the operators' rules that the core was told
    recall_requests: list[RecallRequest] = field(default_factory=list)  # the cycle sends them
    recalls_sent: int = 0
    # Parts of the loops.
    wakes: Wakes = field(default_factory=Wakes)
    unsettled: Unsettled = field(default_factory=Unsettled)
    polled: Polled = field(default_factory=Polled)
    counters: Counters = field(default_factory=Counters)

    def __post_init__(self) -> None:
        self.began_at = self.clock()

    @property
    def fence(self) -> Fence:
        return Fence(self.id, self.lease.epoch, self.lease.holder, self.rules)

    def now_us(self) -> int:
        """The database's time, estimated without a query. Used for order and estimates, never for safety."""
        return int(self.clock() * 1_000_000) + self.clock_offset_us

    def report(
        self, result: Result, boot: int, *, node: int | None = None, held_us: int = 0, heard_us: int | None = None
    ) -> None:
        """An attempt ended `held_us` ago: its resources are free at once; the next batch settles its task.

        `node`: who says so; None: we ourselves. `heard_us`: nobody knows how long it ran; its node was last heard of
        then.
        """
        attempt = self.attempts.get(result.task)
        is_own = attempt is not None and attempt.is_of(result.task, result.attempt, boot)
        if attempt is not None and is_own:
            if attempt.reported:
                return
            attempt.reported = True
            learn = result.run_us if result.outcome in (Outcome.OK, Outcome.ERROR) else None
            self.core.apply(AttemptEnded(result.task, learn, result.calls_per_grant), self.now_us())
            self.wakes.freed += 1
            self.wakes.cycle.set()
        late_from = None if is_own else node
        self.unsettled.reports.append(Reported(result, boot, self.now_us() - held_us, heard_us, late_from))
        self.wakes.settle.set()

    def is_unreported(self, key: Key) -> bool:
        attempt = self.attempts.get(key[0])
        return attempt is not None and attempt.attempt == key[1] and not attempt.reported

    def give_up(self, attempt: Authorised, outcome: Outcome, message: str) -> None:
        """Reports an attempt on behalf of a node that can't."""
        if not attempt.reported:
            is_lost = outcome is Outcome.LOST
            failure = Failure("lost" if is_lost else outcome.label, message)
            result = Result(attempt.task, attempt.attempt, outcome, 0, failure=failure)
            self.report(result, attempt.boot, heard_us=self._heard_us(attempt.node) if is_lost else None)

    def _heard_us(self, node: int) -> int:
        """When the node was last heard of, by the database's clock; 0: not in this term."""
        heard_at = self.heard_at.get(node)
        return 0 if heard_at is None else int(heard_at * 1_000_000) + self.clock_offset_us

    def leave(self, session: Session) -> None:
        """The connection is gone. Its attempts go on: the node may come back within their grace."""
        if self.sessions.get(session.node) is session:
            del self.sessions[session.node]
            self.heard_at[session.node] = session.heard_at
            self.core.apply(NodeLeft(session.node), self.now_us())
