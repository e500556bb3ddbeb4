"""`rota simulate trace`: reads a file, samples it, runs each policy on the same jobs and compares them.

The report has the first policy's figures at its top level, all policies' figures under `policies`, and the first
policy's figures divided by each other's under `ratios`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rota.simulate.traces import openb, plot, swf
from rota.simulate.traces.drive import Run, drive
from rota.simulate.traces.estimate_errors import estimate_errors
from rota.simulate.traces.figures import figures, peak_memory_mib
from rota.simulate.traces.fill import fill
from rota.simulate.traces.policies import ROTA, policy
from rota.simulate.traces.rota_policy import RotaPolicy
from rota.simulate.traces.workload import BadTrace, Progress, Workload, compressed, overestimated, samples, whole

USUAL_LENGTH, USUAL_COUNT = 1024, 10
_UNREADABLE: dict[type[Exception], str] = {
    FileNotFoundError: "no such file",
    IsADirectoryError: "a directory, not a file",
    UnicodeDecodeError: "not a text file",
}
COMPARED = (
    *("average_bounded_slowdown", "mean_wait_seconds", "longest_wait_seconds"),
    *("utilisation", "gpu_allocated_share"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
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
    estimates: int = 0  # in a sequence: jobs whose start is estimated at submission


def replay(options: ReplayOptions, progress: Progress = None) -> dict[str, object]:
    workload = read(options.file, options.nodes)
    if options.fill is not None:
        by_policy = {name: _filled(workload, name, options, progress) for name in options.policies}
    else:
        by_policy = _in_time(workload, options, progress)
    first = options.policies[0]
    return {
        "trace": workload.name,
        "machines": len(workload.machines),
        "seed": options.seed,
        "left_out": workload.left_out,
        "policy": first,
        **by_policy[first],
        "policies": by_policy,
        "ratios": {f"{first}/{name}": _ratios(by_policy[first], by_policy[name]) for name in options.policies[1:]},
    }


def read(file: Path, nodes: Path | None) -> Workload:
    """Recognises the format by the content, not by the name."""
    text = _text(file)
    if openb.looks_like_tasks(text):
        if nodes is None:
            raise BadTrace(f"{file} has openb tasks: give their machines with --nodes")
        return openb.read(file, text, nodes, _text(nodes))
    if nodes is not None:
        raise BadTrace(f"{file} has no openb tasks, so --nodes means nothing for it")
    return swf.read(file, text)


def _in_time(workload: Workload, options: ReplayOptions, progress: Progress) -> dict[str, dict[str, object]]:
    if options.overestimated:
        workload = overestimated(workload, options.seed)
    workload = compressed(workload, options.scale)
    if options.length is None and options.count is None:
        sequences = whole(workload)
    else:
        length, count = options.length or USUAL_LENGTH, options.count or USUAL_COUNT
        sequences = samples(workload, length=length, count=count, seed=options.seed)
    by_policy: dict[str, dict[str, object]] = {}
    total = len(options.policies) * len(sequences)
    for name in options.policies:
        runs: list[Run] = []
        for sequence in sequences:
            part = len(by_policy) * len(sequences) + len(runs)
            each = policy(name, sequence)
            estimate = each.estimate if isinstance(each, RotaPolicy) and options.estimates else None
            showing = _part(progress, part, total)
            runs.append(drive(sequence, each, progress=showing, estimate=estimate, estimates=options.estimates))
        by_policy[name] = figures(runs).as_dict()
        if name == ROTA and options.estimates:
            by_policy[name] |= estimate_errors(runs).as_dict()
        if options.plot is not None and name == options.policies[0]:
            plot.write(options.plot, f"{workload.name}, {name}", runs[0])
    return by_policy


def _filled(workload: Workload, name: str, options: ReplayOptions, progress: Progress) -> dict[str, object]:
    assert options.fill is not None
    filled = fill(workload, name, times=options.fill, seed=options.seed, progress=progress)
    spent = filled.policy_seconds
    speed = round(filled.tasks / spent, 1) if spent else 0.0
    return filled.as_dict() | {"decisions_per_second": speed, "peak_memory_mib": round(peak_memory_mib(), 1)}


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
    except (OSError, ValueError) as error:
        reason = _UNREADABLE.get(type(error)) or f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise BadTrace(f"{path}: {reason}") from None
