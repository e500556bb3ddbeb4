"""The resources of this node: detected from the machine, overridden by its operator."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from rota.execute.machine.device_files import GPU
from rota.execute.machine.ports import DEFAULT_PORTS
from rota.model.resources import Resources
from rota.model.units import bytes_of, count_of, cpu_milli_of, kbit_of

_CGROUP = Path("/sys/fs/cgroup")


def detect_capacity(data: Path, ports: range = DEFAULT_PORTS) -> Resources:
    """CPUs this process may use, the machine's (or its cgroup's) memory, the free disk space below `data`, its own
    ports.

    Disk operations, bandwidth and GPUs can't be detected: a node has none unless its operator says so.
    """
    folder = next(path for path in (data, *data.resolve().parents) if path.exists())
    return Resources(
        cpu_milli=_cpu_milli(),
        memory_bytes=_memory_bytes(),
        disk_bytes=shutil.disk_usage(folder).free,
        ports=len(ports),
    )


_UNITS: dict[str, Callable[[str], int]] = {
    "cpu": cpu_milli_of,
    "memory": bytes_of,
    "disk": bytes_of,
    "iops": count_of,
    "bandwidth": kbit_of,
}


def with_devices(detected: Resources, counts: Mapping[str, int]) -> Resources:
    """Adds the number of devices of each kind that the operator has named files for."""
    custom = {kind: count for kind, count in counts.items() if kind != GPU}
    return msgspec.structs.replace(detected, gpus=counts.get(GPU, detected.gpus), custom=detected.custom | custom)


def parse_capacity(text: str, detected: Resources) -> Resources:
    """`cpu=8,memory=16G,iops=5k,bandwidth=1G,gpu=1,license=2` over the detected capacity; others are custom."""
    amounts = {
        "cpu": detected.cpu_milli,
        "memory": detected.memory_bytes,
        "disk": detected.disk_bytes,
        "iops": detected.iops,
        "bandwidth": detected.bandwidth_kbit,
        "gpu": detected.gpus,
        "ports": detected.ports,
    }
    custom = dict(detected.custom)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        name = {"gpus": "gpu", "port": "ports"}.get(name, name)
        if not equals or not name or not value:
            raise ValueError(f"{part!r} is not a capacity; write cpu=8,memory=16G,gpu=1,license=2")
        if name in amounts:
            amounts[name] = _amount(name, value)
            if not amounts[name] and name in ("cpu", "memory"):
                raise ValueError(f"{part}: every task needs some; leave it out to offer what there is")
        else:
            custom[name] = _amount(name, value)
    if amounts["ports"] > detected.ports:
        raise ValueError(f"ports={amounts['ports']}: the range has {detected.ports}; write a larger one with --ports")
    return Resources(
        cpu_milli=amounts["cpu"],
        memory_bytes=amounts["memory"],
        disk_bytes=amounts["disk"],
        gpus=amounts["gpu"],
        ports=amounts["ports"],
        custom=custom,
        iops=amounts["iops"],
        bandwidth_kbit=amounts["bandwidth"],
    )


def _amount(name: str, value: str) -> int:
    convert = _UNITS.get(name)
    if convert is None and not value.isdecimal():
        raise ValueError(f"{name}={value}: write a whole number")
    try:
        amount = int(value) if convert is None else convert(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if amount < 0:
        raise ValueError(f"{name}={value}: an amount can't be negative; write 0 or more")
    return amount


def _cpu_milli() -> int:
    available = len(os.sched_getaffinity(0)) * 1000
    with contextlib.suppress(OSError, ValueError):
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        if quota != "max":
            return max(1, min(available, int(quota) * 1000 // int(period)))
    with contextlib.suppress(OSError, ValueError):
        limit = int((_CGROUP / "cpu/cpu.cfs_quota_us").read_text())
        if limit > 0:
            return max(1, min(available, limit * 1000 // int((_CGROUP / "cpu/cpu.cfs_period_us").read_text())))
    return available


def _memory_bytes() -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            return min(total, int((_CGROUP / name).read_text()))
    return total
