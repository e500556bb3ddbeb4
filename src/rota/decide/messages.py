"""The core's messages: events in, decisions out. Frozen; the core has no other input or output but questions."""

from __future__ import annotations

import msgspec

from rota.decide.policy import Policy
from rota.model.node import Closed
from rota.model.queue import NEVER_US, AuthorisedAttempt, ReadyTask
from rota.model.resources import Resources, Shape


class Event(msgspec.Struct, frozen=True):
    """A fact. The core takes each in with `apply`."""


class NodeJoined(Event, frozen=True):
    node: int
    capacity: Resources
    labels: dict[str, str]
    draining: bool = False


class NodeClosed(Event, frozen=True):
    """The node takes no new work, or the reason changed."""

    node: int
    why: Closed = Closed.DRAINING


class NodeOpened(Event, frozen=True):
    node: int


class NodeLeft(Event, frozen=True):
    """The node takes no new work. Its grants stay until each attempt is reported ended."""

    node: int


class PolicyKnown(Event, frozen=True):
    policy: Policy


class LaneKnown(Event, frozen=True):
    """Lanes of one level are served together; a gated one only while the pool is below its peak mark."""

    lane: int
    level: int
    gated: bool


class ShapeKnown(Event, frozen=True):
    shape: int
    demand: Shape


class TenantKnown(Event, frozen=True):
    tenant: int
    weight: int
    cpu_milli_limit: int | None
    memory_bytes_limit: int | None
    running_limit: int | None = None
    urgent_ppm: int = 500_000  # of the pool, held through the urgent lane while others wait
    paused: bool = False  # no new task of it starts
    longest_cap_us: int = NEVER_US  # of its plan: a task without a cap of its own has this one


class SharesKnown(Event, frozen=True):
    """Tenants' charges as they were last saved, at `saved_us`. Only at restore."""

    charged: dict[int, int]
    saved_us: int


class TasksReady(Event, frozen=True):
    tasks: list[ReadyTask]


class TasksGone(Event, frozen=True):
    """Tasks that must not start any more: cancelled, edited, moved. Unknown ids are fine."""

    tasks: list[int]


class AttemptAdopted(Event, frozen=True):
    """An attempt that an earlier leader authorised. Only at restore."""

    attempt: AuthorisedAttempt


class AttemptEnded(Event, frozen=True, gc=False):
    """The attempt has left its node. `run_us` teaches how long such work takes; None teaches nothing.

    `calls_per_grant`: how many calls of such work may run concurrently on one grant.
    """

    task: int
    run_us: int | None
    calls_per_grant: int = 1


class CapChanged(Event, frozen=True):
    """A running task has a new cap. Unknown tasks are fine."""

    task: int
    cap_ms: int


class StartRefused(Event, frozen=True):
    """The store did not authorise a planned start: the core's copy was stale. The core forgets the task."""

    task: int


class PlaceRefused(Event, frozen=True):
    """The store found the task's key cooled down, or no place of a key counted across pools. The task queues again."""

    task: ReadyTask


class KeysFreed(Event, frozen=True):
    """Tasks of this pool gave back places of these keys (tenant, name), which are counted across pools."""

    keys: list[tuple[int, str]]


class KeysSeen(Event, frozen=True):
    """Places of the watched keys that other pools hold, or queued for earlier."""

    elsewhere: dict[tuple[int, str], int]


class KeysCooled(Event, frozen=True):
    """All keys (tenant, name) that are cooled down now, in either scope, and until when."""

    until_us: dict[tuple[int, str], int]


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
