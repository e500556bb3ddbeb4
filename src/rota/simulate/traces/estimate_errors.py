"""How right the estimated starts are: what a client is told at submission, against what then happened.

Only every nth job is asked for, so that a run costs little more. The answer is the one that `rota why` gives. Jobs that
started at once say little about estimates, so those that truly waited are counted apart as well.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rota.simulate.traces.drive import Run
from rota.simulate.traces.figures import quantile
from rota.simulate.traces.workload import Report

WAITED_US = 1_000_000  # a shorter wait is none


@dataclass(frozen=True, slots=True)
class EstimateErrors(Report):
    """Errors are |told − true| in seconds, relative ones by the true wait; a bias below 0 means told too early."""

    estimates_asked: int
    estimates_told_share: float
    estimate_error_median: float | None
    estimate_error_p90: float | None
    estimate_bias_median: float | None
    waited_asked: int  # of jobs that truly waited
    waited_told_share: float
    waited_error_median: float | None
    waited_error_p90: float | None
    waited_bias_median: float | None
    waited_relative_error_median: float | None
    waited_relative_error_p90: float | None


def estimate_errors(runs: Sequence[Run]) -> EstimateErrors:
    asked = [one for run in runs for one in _compared(run)]
    waited = [one for one in asked if one[1] >= WAITED_US]
    told, told_waited = _told(asked), _told(waited)
    errors, waited_errors = [abs(error) for error, _ in told], [abs(error) for error, _ in told_waited]
    relative = [abs(error) / (wait / 1e6) for error, wait in told_waited]
    return EstimateErrors(
        estimates_asked=len(asked),
        estimates_told_share=len(told) / len(asked) if asked else 0.0,
        estimate_error_median=_median(errors),
        estimate_error_p90=_p90(errors),
        estimate_bias_median=_median([error for error, _ in told]),
        waited_asked=len(waited),
        waited_told_share=len(told_waited) / len(waited) if waited else 0.0,
        waited_error_median=_median(waited_errors),
        waited_error_p90=_p90(waited_errors),
        waited_bias_median=_median([error for error, _ in told_waited]),
        waited_relative_error_median=_median(relative),
        waited_relative_error_p90=_p90(relative),
    )


def _compared(run: Run) -> list[tuple[int | None, int]]:
    """(told − true in µs, true wait in µs) of the jobs that were asked for and have started; None: nothing was told."""
    found: list[tuple[int | None, int]] = []
    for job in run.workload.jobs:
        start_us = run.first_start_us.get(job.id)
        if job.id in run.told_us and start_us is not None:
            told_us = run.told_us[job.id]
            found.append((None if told_us is None else told_us - start_us, start_us - job.submit_us))
    return found


def _told(compared: list[tuple[int | None, int]]) -> list[tuple[float, int]]:
    return [(error / 1e6, wait) for error, wait in compared if error is not None]


def _median(values: list[float]) -> float | None:
    return round(statistics.median(values), 4) if values else None


def _p90(values: list[float]) -> float | None:
    return round(quantile(values, 0.9), 4) if values else None
