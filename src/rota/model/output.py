"""What is left out of an attempt's output, and how readers are told. Pure: server and clients use the same rules.

Of long output the beginning and the end of each stream are kept. Every chunk says how many bytes of its stream came
before it (`offset`), so a reader knows what lies between two chunks, however old the first one is.
"""

from __future__ import annotations

STREAMS = {1: "stdout", 2: "stderr"}


def heading(task: int, name: str) -> bytes:
    """The line above a task's output in the log of its array or graph."""
    return f"==> {task} {name} <==\n".encode()


class Gaps:
    """Tells what is left out before each chunk of one attempt that is read in order."""

    def __init__(self, *, from_start: bool) -> None:
        self._ends: dict[str, int] = dict.fromkeys(STREAMS.values(), 0) if from_start else {}

    def before(self, stream: str, *, offset: int, size: int) -> int:
        """How many bytes are left out before this chunk. `offset` -1: unknown, then none."""
        if offset < 0:
            return 0
        end = self._ends.get(stream, offset)
        self._ends[stream] = offset + size
        return max(0, offset - end)


class MarkedText:
    """Output as text: a line of its own stands where some of it is left out."""

    def __init__(self) -> None:
        self._is_inside_line = False

    def add(self, stream: str, data: bytes, *, left_out_bytes: int) -> bytes:
        shown = data
        if left_out_bytes:
            line_end = "\n" if self._is_inside_line else ""
            shown = f"{line_end}[rota: {left_out_bytes:,} bytes of {stream} are left out here]\n".encode() + data
        if shown:
            self._is_inside_line = not shown.endswith(b"\n")
        return shown

    def end_line(self) -> bytes:
        """A line end, unless the last line has one."""
        return b"\n" if self._is_inside_line else b""
