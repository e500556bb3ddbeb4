"""No safety decision uses a node's wall clock (I30): the code that leads, runs and settles tasks reads none.

What these folders know of time is the monotonic clock of their process, or the database's own. Whoever needs a wall clock
there says here what for; it must never decide when something starts, ends, or is given up.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota

SOURCE = Path(rota.__file__).parent
FOLDERS = ("cluster", "decide", "dispatch", "execute", "settle", "timetable")
WALL = {
    "time": {"time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "strftime", "CLOCK_REALTIME"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}
ALLOWED: dict[str, str] = {}  # file → what for


def wall_clocks(source: str) -> Iterator[str]:
    """Every mention of a wall clock, called or handed on: `time.time`, `datetime.now`, `from time import time`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if node.attr in WALL.get(owner, ()):
                yield f"{owner}.{node.attr} (line {node.lineno})"
        elif isinstance(node, ast.ImportFrom) and node.module in WALL:
            yield from (
                f"{node.module}.{name.name} (line {node.lineno})"
                for name in node.names
                if name.name in WALL[node.module]
            )


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_code_that_decides_about_tasks_reads_a_wall_clock(folder: str) -> None:
    files = sorted((SOURCE / folder).rglob("*.py"))
    assert files
    found = {str(file.relative_to(SOURCE)): list(wall_clocks(file.read_text())) for file in files}
    assert {file: clocks for file, clocks in found.items() if clocks and file not in ALLOWED} == {}


def test_what_is_allowed_is_still_there() -> None:
    assert [file for file in ALLOWED if not list(wall_clocks((SOURCE / file).read_text()))] == []


@pytest.mark.parametrize(
    "source",
    [
        "import time\nat = time.time()",
        "import time\ndef f(clock=time.time): ...",
        "from time import time",
        "import datetime\nnow = datetime.datetime.now()",
        "from datetime import datetime\nnow = datetime.now(UTC)",
        "import time\ntime.clock_gettime(time.CLOCK_REALTIME)",
    ],
)
def test_a_wall_clock_is_found_however_it_is_written(source: str) -> None:
    assert len(list(wall_clocks(source))) == 1


def test_the_monotonic_clock_is_none() -> None:
    assert list(wall_clocks("import time\nat = time.monotonic() + time.process_time_ns()")) == []
