"""Reads the Standard Workload Format: one job a line, 18 numbers, header lines that begin with a semicolon.

The machine is one pool of the header's MaxProcs (or MaxNodes) processors. -1 means "not known" in every field.
The format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

import re
from pathlib import Path

from rota.model.resources import Resources
from rota.simulate.traces.workload import BadTrace, Job, Machine, Workload, perfect_cap_ms

_FIELDS = 18
_SUBMIT, _RUN, _PROCESSORS, _ASKED, _USER = 1, 3, 4, 7, 11  # field numbers, from 0
_LARGEST = 10**12  # a larger number of seconds or processors is a mistake


def read(path: Path, text: str) -> Workload:
    """The jobs of a trace in order of submission, with perfect caps."""
    processors = _processors(path, text)
    shapes: dict[int, int] = {}
    jobs: list[tuple[int, int, int, int]] = []
    left_out = 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(";") or not line.strip():
            continue
        submit, run, width, user = _fields(path, number, line)
        if submit < 0 or run < 0 or not 0 < width <= processors:
            left_out += 1  # cancelled before it ran, or larger than the machine
            continue
        jobs.append((submit, run, shapes.setdefault(width, len(shapes)), max(user, 1)))
    jobs.sort(key=lambda job: job[0])
    return Workload(
        name=path.name,
        machines=(Machine(1, Resources(cpu_milli=processors * 1000)),),
        shapes=tuple(Resources(cpu_milli=width * 1000) for width in shapes),
        jobs=tuple(
            Job(number, user, shape, submit * 1_000_000, run * 1_000_000, perfect_cap_ms(run * 1_000_000))
            for number, (submit, run, shape, user) in enumerate(jobs, 1)
        ),
        left_out=left_out,
    )


def _processors(path: Path, text: str) -> int:
    """MaxProcs, or MaxNodes in traces of one-processor nodes."""
    for name in ("MaxProcs", "MaxNodes"):
        found = re.search(rf"^\s*;\s*{name}\s*:\s*(\d+)", text, re.MULTILINE)
        if found and int(found[1]) > 0:
            return int(found[1])
    raise BadTrace(f"{path}: not a Standard Workload Format file: its header has neither MaxProcs nor MaxNodes")


def _fields(path: Path, number: int, line: str) -> tuple[int, int, int, int]:
    fields = line.split()
    if len(fields) != _FIELDS:
        raise BadTrace(f"{path}, line {number}: {len(fields)} fields, and the format has {_FIELDS}")
    try:
        values = [float(fields[position]) for position in (_SUBMIT, _RUN, _PROCESSORS, _ASKED, _USER)]
    except ValueError:
        raise BadTrace(f"{path}, line {number}: a field is not a number") from None
    if not all(abs(value) < _LARGEST for value in values):  # catches nan and infinity as well
        raise BadTrace(f"{path}, line {number}: a field is out of range")
    submit, run, processors, asked, user = (int(value) for value in values)
    return submit, run, processors if processors > 0 else asked, user
