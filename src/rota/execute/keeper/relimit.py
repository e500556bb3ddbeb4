"""Changes the limits of a group in use, when a warm child is taken for calls of another shape.

A limit that is not set any more is lifted. Memory can't be lowered below its use: cgroup v2 would kill for it, so the
use is read first; v1 refuses. In both cases the answer is no, and the caller takes another child.
"""

from __future__ import annotations

import contextlib

from rota.execute.linux.cgroup_limits import CPU, IO, MEMORY, PIDS, Leaf, Limits, read, write

_PERIOD_US = 100_000
_V2_LIFTED = {
    MEMORY: (("memory.max", "max"),),
    PIDS: (("pids.max", "max"),),
    CPU: (("cpu.weight", "100"), ("cpu.max", f"max {_PERIOD_US}")),
}
_V1_LIFTED = {
    MEMORY: (("memory.memsw.limit_in_bytes", "-1"), ("memory.limit_in_bytes", "-1")),
    PIDS: (("pids.max", "max"),),
    CPU: (("cpu.shares", "1024"), ("cpu.cfs_quota_us", "-1")),
}


def relimit(leaf: Leaf, before: Limits, after: Limits) -> bool:
    """True: the group has the new limits. False: it uses more memory than they allow and keeps its old ones."""
    if after.memory_bytes and leaf.is_v2 and _in_use(leaf) > after.memory_bytes:
        return False
    raised = after.memory_bytes == 0 or 0 < before.memory_bytes < after.memory_bytes
    lifted = {
        MEMORY: bool(before.memory_bytes) and raised,  # the two limits of v1 must not pass each other on the way up
        PIDS: bool(before.pids) and not after.pids,
        CPU: bool(before.cpu_milli) and not after.cpu_milli,
    }
    for controller, is_lifted in lifted.items():
        if is_lifted:
            _lift(leaf, controller)
    if before.iops and not after.iops and before.device:
        _lift_operations(leaf, before.device)
    try:
        leaf.limit(after)
    except OSError:
        with contextlib.suppress(OSError):
            leaf.limit(before)
        return False
    return True


def _lift(leaf: Leaf, controller: str) -> None:
    folder = leaf.paths.get(controller)
    if folder is None:
        return
    for name, value in (_V2_LIFTED if leaf.is_v2 else _V1_LIFTED)[controller]:
        with contextlib.suppress(OSError):  # a kernel without swap accounting has no such file
            write(f"{folder}/{name}", value)


def _lift_operations(leaf: Leaf, device: str) -> None:
    folder = leaf.paths.get(IO)
    if folder is None:
        return
    lifted = (
        (("io.max", f"{device} riops=max wiops=max"),)
        if leaf.is_v2
        else (("blkio.throttle.read_iops_device", f"{device} 0"), ("blkio.throttle.write_iops_device", f"{device} 0"))
    )
    for name, value in lifted:
        write(f"{folder}/{name}", value)


def _in_use(leaf: Leaf) -> int:
    """Bytes that can't be reclaimed: not the page cache."""
    folder = leaf.paths.get(MEMORY)
    if folder is None:
        return 0
    with contextlib.suppress(OSError, ValueError):
        facts = dict(line.split(" ", 1) for line in read(f"{folder}/memory.stat").splitlines())
        return int(facts["anon"]) + int(facts.get("shmem", "0"))
    return 0
