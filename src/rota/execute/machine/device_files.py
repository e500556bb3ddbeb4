"""The files under /dev of a node's devices, as its operator names them: `gpu0=/dev/nvidia0`.

A device named with a number is assigned to one attempt at a time (a GPU in parts to several), and in a sandbox only
that attempt sees its files. A name without a number stands for files that every attempt with a device of the kind
needs, such as /dev/nvidiactl. Nothing else of /dev is ever visible.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rota.model.resources import Resources

GPU = "gpu"
Assigned = tuple[tuple[str, tuple[int, ...]], ...]  # kinds other than GPUs, and which of each

_NAME = re.compile(r"^([a-z][a-z-]{0,38}?)([0-9]{1,4})?\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class DeviceFiles:
    numbered: Mapping[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """How many of each kind there are."""
        kinds = [kind for kind, _ in self.numbered]
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}

    def of(self, gpus: tuple[int, ...], others: Assigned) -> tuple[str, ...]:
        """The files visible to an attempt with these devices."""
        files: dict[str, None] = {}
        for kind, numbers in ((GPU, gpus), *others):
            for number in numbers:
                files |= dict.fromkeys((*self.shared.get(kind, ()), *self.numbered.get((kind, number), ())))
        return tuple(files)


NONE = DeviceFiles()


def parse_devices(texts: Sequence[str]) -> DeviceFiles:
    """`NAME[NUMBER]=PATH[,PATH…]`, each. ValueError says what is wrong."""
    numbered: dict[tuple[str, int], tuple[str, ...]] = {}
    shared: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, paths = text.partition("=")
        parsed = _NAME.match(name)
        if not parsed or not equals or not paths:
            raise ValueError(f"{text!r} is not a device; write gpu0=/dev/nvidia0 or gpu=/dev/nvidiactl")
        kind, number = parsed[1], parsed[2]
        files = tuple(_device(text, path) for path in paths.split(","))
        if (kind in shared) if number is None else ((kind, int(number)) in numbered):
            raise ValueError(f"{text!r}: {name} is named twice")
        if number is None:
            shared[kind] = files
        else:
            numbered[kind, int(number)] = files
    _check_distinct(numbered)
    devices = DeviceFiles(numbered, shared)
    for kind, count in devices.counts.items():
        missing = [number for number in range(count) if (kind, number) not in numbered]
        if missing:
            raise ValueError(f"devices are numbered from 0 without gaps: there is no {kind}{missing[0]}")
    return devices


def _check_distinct(numbered: Mapping[tuple[str, int], tuple[str, ...]]) -> None:
    """One file under two numbers would be assigned to two attempts."""
    whose: dict[tuple[str, str], int] = {}
    for (kind, number), files in numbered.items():
        for path in files:
            first = whose.setdefault((kind, path), number)
            if first != number:
                raise ValueError(f"{kind}{first} and {kind}{number} are the same device: {path}")


def check_counts(devices: DeviceFiles, capacity: Resources) -> None:
    """ValueError: the capacity differs from the named devices, or shared files have no device."""
    for kind, count in devices.counts.items():
        offered = capacity.gpus if kind == GPU else capacity.custom.get(kind, 0)
        if offered != count:
            raise ValueError(f"{count} of {kind} are named, but --capacity says {kind}={offered}")
    for kind in devices.shared:
        if not (capacity.gpus if kind == GPU else capacity.custom.get(kind, 0)):
            raise ValueError(f"the files of {kind} are for every {kind}, but there is none; name {kind}0=… too")


def variables(others: Assigned) -> dict[str, str]:
    """The assigned devices as variables of a task: `ROTA_DEVICES_FPGA=0,2`."""
    return {f"ROTA_DEVICES_{kind.upper().replace('-', '_')}": ",".join(map(str, numbers)) for kind, numbers in others}


def _device(text: str, path: str) -> str:
    if not path.startswith("/dev/") or os.path.normpath(path) != path:
        raise ValueError(f"{text!r}: {path!r} is not a path under /dev")
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        raise ValueError(f"{text!r}: {path}: {error.strerror}") from None
    if not stat.S_ISCHR(mode) and not stat.S_ISBLK(mode):
        raise ValueError(f"{text!r}: {path} is not a device")
    return path
