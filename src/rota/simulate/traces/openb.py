"""Reads the openb traces: a CSV of machines and a CSV of tasks that request CPU, memory, GPUs and parts of GPUs.

A task runs from its creation to its deletion. `gpu_milli` below 1000 is a share of one device; 1000 means `num_gpu`
whole ones. The traces: https://github.com/alibaba/clusterdata (cluster-trace-gpu-v2023).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from rota.model.resources import Resources
from rota.simulate.traces.workload import BadTrace, Job, Machine, Workload, perfect_cap_ms

NODE_COLUMNS = ("cpu_milli", "memory_mib", "gpu")
TASK_COLUMNS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time")
WHOLE_DEVICE_MILLI = 1000
_MIB = 2**20


def read(tasks: Path, task_text: str, nodes: Path, node_text: str) -> Workload:
    """Machines in file order, tasks by creation, with perfect caps. The trace names no tenants: all are 1."""
    machines = tuple(
        Machine(number, Resources(cpu_milli=cpu, memory_bytes=memory * _MIB, gpus=gpus))
        for number, (cpu, memory, gpus) in enumerate(_rows(nodes, node_text, NODE_COLUMNS), 1)
    )
    if not machines:
        raise BadTrace(f"{nodes}: the file lists no machines")
    shapes: dict[tuple[int, int, int, int], int] = {}
    jobs: list[tuple[int, int, int]] = []
    left_out = 0
    for cpu, memory, count, milli, created, deleted in _rows(tasks, task_text, TASK_COLUMNS):
        if deleted < created:
            left_out += 1
            continue
        whole, part = (0, milli) if 0 < milli < WHOLE_DEVICE_MILLI else (count, 0)
        shape = shapes.setdefault((cpu, memory, whole, part), len(shapes))
        jobs.append((created, deleted - created, shape))
    demands = tuple(
        Resources(cpu_milli=cpu, memory_bytes=memory * _MIB, gpus=whole, gpu_milli=part)
        for cpu, memory, whole, part in shapes
    )
    possible = [any(demand.fits_in(machine.capacity) for machine in machines) for demand in demands]
    left_out += sum(not possible[shape] for _, _, shape in jobs)
    jobs = sorted((job for job in jobs if possible[job[2]]), key=lambda job: job[0])
    return Workload(
        name=tasks.name,
        machines=machines,
        shapes=demands,
        jobs=tuple(
            Job(number, 1, shape, created * 1_000_000, run * 1_000_000, perfect_cap_ms(run * 1_000_000))
            for number, (created, run, shape) in enumerate(jobs, 1)
        ),
        left_out=left_out,
    )


def looks_like_tasks(text: str) -> bool:
    return set(TASK_COLUMNS) <= {name.strip() for name in text.partition("\n")[0].split(",")}


def _rows(path: Path, text: str, columns: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise BadTrace(f"{path}: no column {missing[0]!r}; it needs {', '.join(columns)}")
    for row in reader:
        try:
            values = tuple(int(row[name]) for name in columns)
        except (TypeError, ValueError):
            raise BadTrace(f"{path}, line {reader.line_num}: not whole numbers under {', '.join(columns)}") from None
        if min(values) < 0:
            raise BadTrace(f"{path}, line {reader.line_num}: a number below zero")
        yield values
