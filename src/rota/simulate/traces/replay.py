"""`rota simulate trace` from a file to a report: read, sample, run each policy on the same jobs, compare.

The report is one document. The first policy's figures stand at its top level, all policies' under `policies`, and
how the first compares with each other one under `ratios`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rota.simulate.traces import openb, plot, swf
from rota.simulate.traces.drive import Run, drive
from rota.simulate.traces.figures import figures, peak_memory_mib
from rota.simulate.traces.fill import fill
from rota.simulate.traces.policies import policy
from rota.simulate.traces.workload import BadTrace, Workload, compressed, overestimated, samples, whole

USUAL_LENGTH, USUAL_COUNT = 1024, 10
COMPARED = (
    "average_bounded_slowdown",
    "mean_wait_seconds",
    "longest_wait_seconds",
    "utilisation",
    "gpu_allocated_share",
)

Progress = Callable[[int, int], None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    file: Path
    nodes: Path | None
    policies: tuple[str, ...]
    length: int | None = None
    count: int | None = None
    seed: int = 1
    scale: float = 1.0
    overestimated: bool = False
    fill: float | None = None
    plot: Path | None = None


def replay(asked: Asked, progress: Progress = None) -> dict[str, object]:
    workload = read(asked.file, asked.nodes)
    if asked.fill is not None:
        found = {name: _filled(workload, name, asked, progress) for name in asked.policies}
    else:
        found = _in_time(workload, asked, progress)
    first = asked.policies[0]
    return {
        "trace": workload.name,
        "machines": len(workload.machines),
        "seed": asked.seed,
        "left_out": workload.left_out,
        "policy": first,
        **found[first],
        "policies": found,
        "ratios": {f"{first}/{name}": _ratios(found[first], found[name]) for name in asked.policies[1:]},
    }


def read(file: Path, nodes: Path | None) -> Workload:
    """The kind of trace is told by what is in the file, not by its name."""
    text = _text(file)
    if openb.looks_like_tasks(text):
        if nodes is None:
            raise BadTrace(f"{file} has openb tasks: give their machines with --nodes")
        return openb.read(file, text, nodes, _text(nodes))
    if nodes is not None:
        raise BadTrace(f"{file} has no openb tasks, so --nodes means nothing for it")
    return swf.read(file, text)


def _in_time(workload: Workload, asked: Asked, progress: Progress) -> dict[str, dict[str, object]]:
    if asked.overestimated:
        workload = overestimated(workload, asked.seed)
    workload = compressed(workload, asked.scale)
    if asked.length is None and asked.count is None:
        sequences = whole(workload)
    else:
        length, count = asked.length or USUAL_LENGTH, asked.count or USUAL_COUNT
        sequences = samples(workload, length=length, count=count, seed=asked.seed)
    found: dict[str, dict[str, object]] = {}
    total = len(asked.policies) * len(sequences)
    for name in asked.policies:
        runs: list[Run] = []
        for sequence in sequences:
            part = len(found) * len(sequences) + len(runs)
            runs.append(drive(sequence, policy(name, sequence), progress=_part(progress, part, total)))
        found[name] = figures(runs).as_dict()
        if asked.plot is not None and name == asked.policies[0]:
            plot.write(asked.plot, f"{workload.name}, {name}", runs[0])
    return found


def _filled(workload: Workload, name: str, asked: Asked, progress: Progress) -> dict[str, object]:
    assert asked.fill is not None
    filled = fill(workload, name, times=asked.fill, seed=asked.seed, progress=progress)
    document = {key: round(value, 4) if isinstance(value, float) else value for key, value in asdict(filled).items()}
    spent = filled.policy_seconds
    document["decisions_per_second"] = round(filled.tasks / spent, 1) if spent else 0.0
    document["peak_memory_mib"] = round(peak_memory_mib(), 1)
    return document


def _ratios(ours: dict[str, object], other: dict[str, object]) -> dict[str, float]:
    ratios: dict[str, float] = {}
    for name in COMPARED:
        above, below = ours.get(name), other.get(name)
        if isinstance(above, int | float) and isinstance(below, int | float) and below:
            ratios[name] = round(above / below, 4)
    return ratios


def _part(progress: Progress, part: int, total: int) -> Progress:
    if progress is None:
        return None
    return lambda done, jobs: progress(part * 1000 + 1000 * done // max(1, jobs), total * 1000)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadTrace(f"{path}: no such file") from None
    except IsADirectoryError:
        raise BadTrace(f"{path}: a directory, not a file") from None
    except UnicodeDecodeError:
        raise BadTrace(f"{path}: not a text file") from None
    except (OSError, ValueError) as error:
        raise BadTrace(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
