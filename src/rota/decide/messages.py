"""The two alphabets of the core: events in, decisions out. Frozen, and nothing else passes the door."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rota.decide.policy import Policy
from rota.model.node import Closed
from rota.model.queue import AuthorisedAttempt, ReadyTask
from rota.model.resources import Resources, Shape


@dataclass(frozen=True, slots=True)
class NodeJoined:
    node: int
    capacity: Resources
    labels: dict[str, str]
    draining: bool = False


@dataclass(frozen=True, slots=True)
class NodeClosed:
    """It takes nothing new, or does so for another reason now."""

    node: int
    why: Closed = Closed.DRAINING


@dataclass(frozen=True, slots=True)
class NodeOpened:
    node: int


@dataclass(frozen=True, slots=True)
class NodeLeft:
    """The node takes nothing new. What it held stays held until each attempt is reported ended."""

    node: int


@dataclass(frozen=True, slots=True)
class PolicyKnown:
    policy: Policy


@dataclass(frozen=True, slots=True)
class LaneKnown:
    """Lanes of one level are served together; a gated one only while the pool is below its peak mark."""

    lane: int
    level: int
    gated: bool


@dataclass(frozen=True, slots=True)
class ShapeKnown:
    shape: int
    demand: Shape


@dataclass(frozen=True, slots=True)
class TenantKnown:
    tenant: int
    weight: int
    cpu_milli_limit: int | None
    memory_bytes_limit: int | None
    running_limit: int | None = None
    urgent_ppm: int = 500_000  # of the pool, held through the urgent lane while others wait
    paused: bool = False  # nothing new of it starts


@dataclass(frozen=True, slots=True)
class SharesKnown:
    """What tenants had been charged when it was last saved, as of `saved_us`. Only at restore."""

    charged: dict[int, int]
    saved_us: int


@dataclass(frozen=True, slots=True)
class TasksReady:
    tasks: list[ReadyTask]


@dataclass(frozen=True, slots=True)
class TasksGone:
    """No longer to be started from here: cancelled, edited, moved. Unknown ids are fine."""

    tasks: list[int]


@dataclass(frozen=True, slots=True)
class AttemptHeld:
    """Adopted at restore: authorised by an earlier leader."""

    attempt: AuthorisedAttempt


class AttemptEnded(msgspec.Struct, frozen=True, gc=False):
    """The node is free of it. `run_us` teaches how long such work takes; None teaches nothing.

    `voices`: how many of such work run at the same time within one grant.
    """

    task: int
    run_us: int | None
    calls_per_grant: int = 1


@dataclass(frozen=True, slots=True)
class CapChanged:
    """What runs may run so long now. Unknown tasks are fine."""

    task: int
    cap_ms: int


@dataclass(frozen=True, slots=True)
class StartRefused:
    """The store did not authorise a start we planned: our copy was stale. The task is forgotten here."""

    task: int


@dataclass(frozen=True, slots=True)
class PlaceRefused:
    """The store found the task's key cooled down, or, if it is counted across pools, no place left. It waits here."""

    task: ReadyTask


@dataclass(frozen=True, slots=True)
class KeysFreed:
    """Places of these keys (tenant, name), counted across pools, were given back by tasks of this pool."""

    keys: list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class KeysSeen:
    """How many places of keys we wait for are held, or spoken for, elsewhere."""

    elsewhere: dict[tuple[int, str], int]


@dataclass(frozen=True, slots=True)
class KeysCooled:
    """All keys (tenant, name) that are cooled down now, whichever way they are counted, and until when."""

    until_us: dict[tuple[int, str], int]


Event = (
    NodeJoined
    | NodeClosed
    | NodeOpened
    | NodeLeft
    | PolicyKnown
    | LaneKnown
    | ShapeKnown
    | TenantKnown
    | SharesKnown
    | TasksReady
    | TasksGone
    | AttemptHeld
    | AttemptEnded
    | CapChanged
    | StartRefused
    | PlaceRefused
    | KeysFreed
    | KeysSeen
    | KeysCooled
)


class Start(msgspec.Struct, frozen=True, gc=False):
    """Run this task on this node. `behind` means after what the node holds now: prefetched, no grant yet."""

    task: ReadyTask
    node: int
    behind: bool
    devices: tuple[int, ...] = ()  # GPUs it may use


class Preempt(msgspec.Struct, frozen=True, gc=False):
    """Ask this attempt to save its work and end: `claimant` gets its place. It comes back ready, not counted."""

    task: int
    node: int
    claimant: int


Decision = Start | Preempt
