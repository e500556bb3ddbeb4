"""The integer vector of resources: a demand, a capacity, or free resources.

Amounts are integers (milli-CPU, bytes, counts), so sums are exact and ties are the same everywhere. `CpuLimit` says how
a grant of CPU is held on its node; placement is the same for both.
"""

from __future__ import annotations

import enum

import msgspec

from rota.model.isolation import Isolation


class Resources(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    cpu_milli: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    gpus: int = 0
    ports: int = 0
    custom: dict[str, int] = msgspec.field(default_factory=dict)
    iops: int = 0
    gpu_milli: int = 0  # a fraction of one device, instead of whole ones; never part of a capacity
    bandwidth_kbit: int = 0

    def plus(self, other: Resources) -> Resources:
        return self._combine(other, 1)

    def minus(self, other: Resources) -> Resources:
        return self._combine(other, -1)

    def fits_in(self, free: Resources) -> bool:
        return (
            self.cpu_milli <= free.cpu_milli
            and self.memory_bytes <= free.memory_bytes
            and self.disk_bytes <= free.disk_bytes
            and self.ports <= free.ports
            and self.iops <= free.iops
            # Free GPUs are counted in thousandths; the leader knows which device has them.
            and 1000 * self.gpus + self.gpu_milli <= 1000 * free.gpus + free.gpu_milli
            and self.bandwidth_kbit <= free.bandwidth_kbit
            and (not self.custom or all(n <= free.custom.get(name, 0) for name, n in self.custom.items()))
        )

    def _combine(self, other: Resources, sign: int) -> Resources:
        custom = self.custom
        if other.custom:
            names = sorted({*self.custom, *other.custom})
            custom = {name: self.custom.get(name, 0) + sign * other.custom.get(name, 0) for name in names}
        return Resources(
            cpu_milli=self.cpu_milli + sign * other.cpu_milli,
            memory_bytes=self.memory_bytes + sign * other.memory_bytes,
            disk_bytes=self.disk_bytes + sign * other.disk_bytes,
            gpus=self.gpus + sign * other.gpus,
            ports=self.ports + sign * other.ports,
            custom=custom,
            iops=self.iops + sign * other.iops,
            gpu_milli=self.gpu_milli + sign * other.gpu_milli,
            bandwidth_kbit=self.bandwidth_kbit + sign * other.bandwidth_kbit,
        )


class Shape(msgspec.Struct, frozen=True, array_like=True):
    """Resources plus the node labels a task requires. Tasks of one shape are interchangeable for placement."""

    resources: Resources
    require: dict[str, str] = {}


class CpuLimit(enum.StrEnum):
    """Both weigh as much as the grant: while the CPU is busy, each task gets its part in proportion."""

    BURST = "burst"  # idle CPU may be used beyond the grant
    QUOTA = "quota"  # never more than the grant


CPU_LIMITS = tuple(one.value for one in CpuLimit)


def usual_cpu_limit(plan_limit: CpuLimit | None, *, trusted: bool) -> CpuLimit:
    """What a tenant's tasks that name none get. None: the plan leaves it to the operator's trust in the tenant."""
    if plan_limit is not None:
        return plan_limit
    return CpuLimit.BURST if trusted else CpuLimit.QUOTA


def unsaid_cpu_limit(isolation: str) -> CpuLimit:
    """What a stored spec without the field means: only tenants that are trusted have tasks without isolation."""
    return CpuLimit.BURST if isolation == Isolation.NONE else CpuLimit.QUOTA
