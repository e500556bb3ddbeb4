"""Every reason for which a task waits, as the slug that clients see. `docs/operations.md` explains each of them."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    # It does not wait.
    RUNNING = "running"
    FROZEN = "frozen"
    ENDED = "ended"
    # It is queued: from the pool's leader, in the order in which they are asked.
    PREFETCHED = "prefetched"
    POOL_PAUSED = "pool-paused"
    TENANT_PAUSED = "tenant-paused"
    NO_NODES = "no-nodes"
    NO_SUCH_LABEL = "no-such-label"
    UNPLACEABLE = "unplaceable"
    DISK_FULL = "disk-full"
    DRAINING = "draining"
    LEAVING = "leaving"
    POOL_LIMIT = "pool-limit"
    PREEMPTING = "preempting"
    RESERVED = "reserved"
    KEY_COOLED = "key-cooled"
    KEY_BUSY = "key-busy"
    TENANT_LIMIT = "tenant-limit"
    OFF_PEAK = "off-peak"
    KEPT_FOR_URGENT = "kept-for-urgent"
    URGENT_SHARE = "urgent-share"
    SHARE = "share"
    NO_FREE_RESOURCES = "no-free-resources"
    RESOURCES_RESERVED = "resources-reserved"
    IN_QUEUE = "in-queue"
    SOON = "soon"
    IN_DATABASE = "in-database"
    LEADER_UNREACHABLE = "leader-unreachable"
    # It may not start yet, as its row says.
    BLOCKED = "blocked"
    DELAYED = "delayed"
    BACKING_OFF = "backing-off"
    PAUSED = "paused"
    HELD = "held"


NOT_WAITING = (Reason.RUNNING, Reason.FROZEN, Reason.ENDED)

# What keeps a task from starting wherever it stands in the queue: said beside whatever else it waits for.
OBSTACLES = (
    Reason.POOL_PAUSED,
    Reason.TENANT_PAUSED,
    Reason.NO_NODES,
    Reason.NO_SUCH_LABEL,
    Reason.UNPLACEABLE,
    Reason.DISK_FULL,
    Reason.DRAINING,
    Reason.LEAVING,
    Reason.TENANT_LIMIT,
)
