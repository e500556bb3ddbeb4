"""Run times: learned from ended attempts, bounded by the cap."""

from __future__ import annotations

from rota.decide.state import CoreState, Running
from rota.model.queue import ReadyTask

MOST_LEARNED = 50_000
DAY_US = 86_400 * 1_000_000


def learn(state: CoreState, running: Running, run_us: int, calls_per_grant: int) -> None:
    """Updates a running mean and an estimate of the 90th percentile, which rises fast and falls slowly."""
    key = (running.tenant, running.work)
    if calls_per_grant > 1:
        state.calls_per_grant[key] = calls_per_grant
    elif state.calls_per_grant:
        state.calls_per_grant.pop(key, None)
    means, p90s = state.run_us, state.p90_us
    mean = means.get(key)
    means[key] = run_us if mean is None else (7 * mean + run_us) // 8
    p90 = p90s.get(key)
    if p90 is None:
        p90s[key] = run_us
    elif run_us > p90:
        p90s[key] = p90 + ((run_us - p90) * 9 // 20 or 1)
    else:
        p90s[key] = p90 - (p90 - run_us) // 20
    if len(means) > MOST_LEARNED:
        for old in list(state.run_us)[: MOST_LEARNED // 2]:
            del state.run_us[old]
            state.p90_us.pop(old, None)
            state.calls_per_grant.pop(old, None)


def expected_us(state: CoreState, task: ReadyTask) -> int | None:
    """The mean run time of such work with its overhead, if it is short enough for prefetch; else None."""
    mean = state.run_us.get((task.tenant, task.work))
    if mean is None or mean > state.policy.ahead_us:
        return None
    return mean + state.policy.overhead_us


def likely_us(state: CoreState, tenant: int, work: int, cap_us: int) -> int:
    """For charging: the mean, or the policy's guess for unknown work."""
    mean = state.run_us.get((tenant, work))
    likely = state.policy.unknown_run_us if mean is None else mean
    return min(likely, cap_us) if cap_us else likely


def longest_us(state: CoreState, task: ReadyTask) -> int:
    """For backfilling: the longest run time to expect. The cap is the hard bound; the percentile may be shorter."""
    cap_us = task.cap_ms * 1000 or DAY_US
    p90 = state.p90_us.get((task.tenant, task.work))
    return cap_us if p90 is None else min(cap_us, p90)


def end_us(state: CoreState, running: Running, now_us: int) -> int:
    """When the attempt will probably end: by the percentile, and once that has passed by its cap."""
    p90 = state.p90_us.get((running.tenant, running.work))
    since_us, cap_us = running.since_us, running.cap_us or DAY_US
    if p90 is not None and since_us + p90 > now_us:
        return since_us + (p90 if p90 < cap_us else cap_us)
    end = since_us + cap_us
    return end if end > now_us else now_us + 1
