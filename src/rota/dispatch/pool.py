"""What a leader holds in memory for its pool: the core, the sessions, and every attempt authorised and not settled.

One event loop owns all of it; the loops of the leader (cycle, settling, watch) read and change it between awaits.
A leader that steps down throws the whole object away: PostgreSQL has everything needed to build the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from rota.cluster.leases import Lease
from rota.decide.core import Core
from rota.decide.messages import AttemptEnded, NodeLeft
from rota.dispatch.loader import Loader
from rota.dispatch.session import Session
from rota.model.attempt import Outcome
from rota.model.task import State
from rota.settings import Settings
from rota.settle.settlement import Reported
from rota.store.key_file import KeyFile
from rota.store.nodes import NodeWord
from rota.store.queue import Fence
from rota.wire import Failure, Result

MOST_RESULTS = 2_000  # settled in one transaction


class Spacing:
    """Keeps batches apart in a steady flow, so that a trickle of results doesn't cost a flush each.

    The pause grows with what the last batch held: above 500 a second it settles at the longest; below that, and after a
    quiet moment, there is none. Enough rows end it early.
    """

    STARTS = 0.008  # a slot may stand idle meanwhile
    RESULTS = 0.02  # nobody's slot waits for the ledger
    A_ROW = 0.002
    ENOUGH = 256

    def __init__(
        self, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]], longest_seconds: float
    ) -> None:
        self._longest_seconds = longest_seconds
        self._clock = clock
        self._sleep = sleep
        self._next = 0.0

    async def wait(self, rows: Callable[[], int]) -> None:
        while (pause := self._next - self._clock()) > 0 and rows() < self.ENOUGH:
            await self._sleep(min(pause, self.A_ROW))

    def mark(self, rows: int) -> None:
        """A batch of so many was written just now."""
        self._next = self._clock() + min(self._longest_seconds, rows * self.A_ROW)


class Authorised(msgspec.Struct, gc=False):
    """An attempt in the database as running, until its settlement commits."""

    task: int
    attempt: int
    node: int
    boot: int
    grace_ms: int
    at: float  # monotonic: when this leader authorised or adopted it
    reported: bool = False  # its result waits for settlement
    stop_told: int = 0  # the connection through which its node was told to end it
    cap_told: tuple[int, int] = (0, 0)  # connection, and the changed cap told through it

    def is_of(self, attempt: int, boot: int) -> bool:
        """Whether news of this attempt, from this boot of its node, is news of us. Anything else came too late."""
        return self.attempt == attempt and self.boot == boot


@dataclass(slots=True)
class PoolState:
    id: int
    name: str
    lease: Lease
    settings: Settings
    core: Core
    loader: Loader
    database_identity: str
    on_ended: Callable[[list[tuple[int, State]]], None]  # tells those who wait on this node
    on_elsewhere: Callable[[Iterable[int]], None]  # other pools have children to release
    secret_keys: KeyFile | None = None  # None: this server node can open no secrets
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock_offset_us: int = 0  # database clock minus our monotonic one
    sessions: dict[int, Session] = field(default_factory=dict)
    attempts: dict[int, Authorised] = field(default_factory=dict)
    heard_at: dict[int, float] = field(default_factory=dict)  # node → monotonic
    words: dict[int, NodeWord] = field(default_factory=dict)  # what agents said that is not in their nodes' rows yet
    reports: deque[Reported] = field(default_factory=deque)
    children: deque[int] = field(default_factory=deque)
    batch_limit: int = MOST_RESULTS  # smaller for a while after the database refused a batch
    cycle_wake: asyncio.Event = field(default_factory=asyncio.Event)
    settle_wake: asyncio.Event = field(default_factory=asyncio.Event)
    look_hinted: bool = False  # rows of ours changed, somebody says: look before the next poll
    watching_keys: bool = False  # some key counted across pools kept tasks waiting at the last poll
    poll_due: bool = False  # the slow loop asks the cycle to read from the head again
    poll_wake: asyncio.Event = field(default_factory=asyncio.Event)  # a timer is nearer than the next poll
    run_times_saved: dict[tuple[int, int], int] = field(default_factory=dict)  # (tenant, work) → µs
    began_at: float = 0.0  # set below, from `clock`
    freed: int = 0  # attempts that ended since the last plan
    started: int = 0  # counters for /metrics
    settled: int = 0
    superseded: int = 0

    def __post_init__(self) -> None:
        self.began_at = self.clock()

    @property
    def fence(self) -> Fence:
        return Fence(self.id, self.lease.epoch, self.lease.holder)

    def now_us(self) -> int:
        """The database's time, without asking it: only ever used to order and to estimate, never for safety."""
        return int(self.clock() * 1_000_000) + self.clock_offset_us

    def report(self, result: Result, boot: int) -> None:
        """An attempt ended: its room is free this moment; what it means is settled in the next batch."""
        known = self.attempts.get(result.task)
        if known is not None and known.is_of(result.attempt, boot):
            if known.reported:
                return
            known.reported = True
            learn = result.run_us if result.outcome in (Outcome.OK, Outcome.ERROR) else None
            self.core.apply(AttemptEnded(result.task, learn, result.calls_per_grant), self.now_us())
            self.freed += 1
            self.cycle_wake.set()
        self.reports.append(Reported(result, boot, self.now_us()))
        self.settle_wake.set()

    def give_up(self, attempt: Authorised, outcome: Outcome, message: str) -> None:
        """Reports an attempt on behalf of a node that can't."""
        if not attempt.reported:
            failure = Failure("lost" if outcome is Outcome.LOST else outcome.label, message)
            self.report(Result(attempt.task, attempt.attempt, outcome, 0, failure=failure), attempt.boot)

    def leave(self, session: Session) -> None:
        """The connection is gone. Its attempts go on: the node may come back within their grace."""
        if self.sessions.get(session.node) is session:
            del self.sessions[session.node]
            self.heard_at[session.node] = session.heard_at
            self.core.apply(NodeLeft(session.node), self.now_us())
