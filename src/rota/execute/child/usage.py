"""How much memory and disk a warm child uses, and how much of it is the current call's.

The kernel keeps the peak of a process's memory; it is reset after each reading, so that the next one shows the peak
since. A reading costs as much as several short calls: the caller decides when it is worth it. Where the kernel has no
figure, the answer is 0.
"""

from __future__ import annotations

import contextlib
import resource

from rota.execute.linux import process_trees

_RESET_PEAK = b"5"  # of the values that can be written there, the one that touches no page


class Usage:
    def __init__(self) -> None:
        self._at_start_bytes = _resident_bytes()
        self._written_bytes = process_trees.written_bytes("self")
        self.grown_bytes = 0  # since its first call, at the last measurement
        _take_peak_down()

    def weigh(self) -> None:
        self.grown_bytes = max(0, _resident_bytes() - self._at_start_bytes)

    def measure(self) -> tuple[int, int]:
        """The peak memory and the bytes written to disks since the last call of this."""
        peak_bytes = process_trees.peak_bytes("self")
        written, before = process_trees.written_bytes("self"), self._written_bytes
        self._written_bytes = written
        _take_peak_down()
        return peak_bytes, max(0, written - before)


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def _take_peak_down() -> None:
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "wb", buffering=0) as file:
        file.write(_RESET_PEAK)
