"""The core's messages: events in, decisions out. Frozen; the core has no other input or output but questions."""

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
    """The node takes no new work, or the reason changed."""

    node: int
    why: Closed = Closed.DRAINING


@dataclass(frozen=True, slots=True)
class NodeOpened:
    node: int


@dataclass(frozen=True, slots=True)
class NodeLeft:
    """The node takes no new work. Its grants stay until each attempt is reported ended."""

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
    paused: bool = False  # no new task of it starts


@dataclass(frozen=True, slots=True)
class SharesKnown:
    """Tenants' charges as they were last saved, at `saved_us`. Only at restore."""

    charged: dict[int, int]
    saved_us: int


@dataclass(frozen=True, slots=True)
class TasksReady:
    tasks: list[ReadyTask]


@dataclass(frozen=True, slots=True)
class TasksGone:
    """Tasks that must not start any more: cancelled, edited, moved. Unknown ids are fine."""

    tasks: list[int]


@dataclass(frozen=True, slots=True)
class AttemptAdopted:
    """An attempt that an earlier leader authorised. Only at restore."""

    attempt: AuthorisedAttempt


class AttemptEnded(msgspec.Struct, frozen=True, gc=False):
    """The attempt has left its node. `run_us` teaches how long such work takes; None teaches nothing.

    `calls_per_grant`: how many calls of such work may run concurrently on one grant.
    """

    task: int
    run_us: int | None
    calls_per_grant: int = 1


@dataclass(frozen=True, slots=True)
class CapChanged:
    """A running task has a new cap. Unknown tasks are fine."""

    task: int
    cap_ms: int


@dataclass(frozen=True, slots=True)
class StartRefused:
    """The store did not authorise a planned start: the core's copy was stale. The core forgets the task."""

    task: int


@dataclass(frozen=True, slots=True)
class PlaceRefused:
    """The store found the task's key cooled down, or no place of a key counted across pools. The task queues again."""

    task: ReadyTask


@dataclass(frozen=True, slots=True)
class KeysFreed:
    """Tasks of this pool gave back places of these keys (tenant, name), which are counted across pools."""

    keys: list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class KeysSeen:
    """Places of the watched keys that other pools hold, or queued for earlier."""

    elsewhere: dict[tuple[int, str], int]


@dataclass(frozen=True, slots=True)
class KeysCooled:
    """All keys (tenant, name) that are cooled down now, in either scope, and until when."""

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
    | AttemptAdopted
    | AttemptEnded
    | CapChanged
    | StartRefused
    | PlaceRefused
    | KeysFreed
    | KeysSeen
    | KeysCooled
)


class Start(msgspec.Struct, frozen=True, gc=False):
    """Run this task on this node. `behind`: prefetched, without a grant until earlier work there ends."""

    task: ReadyTask
    node: int
    behind: bool
    devices: tuple[int, ...] = ()  # GPUs it may use


class Preempt(msgspec.Struct, frozen=True, gc=False):
    """Ask this attempt to save its work and end for `for_task`. It becomes ready again and uses up no attempt."""

    task: int
    node: int
    for_task: int


Decision = Start | Preempt
