"""Run times: learned from ended attempts, bounded by the cap.

A cap that nobody gave (the longest of the plan) says nothing about run times and is never taken for an estimate.
Decisions must rather expect too long a run, so they ask for the 90th percentile; people are told the mean.
"""

from __future__ import annotations

import msgspec

from rota.decide.state import CoreState, Running, Tenant
from rota.model.queue import ReadyTask

MOST_LEARNED = 50_000
DAY_US = 86_400 * 1_000_000


def learn(state: CoreState, running: Running, run_us: int, calls_per_grant: int) -> None:
    """Updates a running mean and estimates of the 90th percentile, of the same work and of the tenant's same shape."""
    key = (running.tenant, running.work)
    if calls_per_grant > 1:
        state.calls_per_grant[key] = calls_per_grant
    elif state.calls_per_grant:
        state.calls_per_grant.pop(key, None)
    means = state.run_us
    mean = means.get(key)
    if mean is None:
        _learn_use_of_cap(state.tenants[running.tenant], running.cap_us, run_us)
    means[key] = run_us if mean is None else (7 * mean + run_us) // 8
    _learn_p90(state.p90_us, key, run_us)
    shape = (running.tenant, running.shape)
    _learn_p90(state.shape_p90_us, shape, run_us)
    mean = state.shape_run_us.get(shape)
    if mean is None and len(state.shape_run_us) > MOST_LEARNED:
        for old in list(state.shape_run_us)[: MOST_LEARNED // 2]:
            del state.shape_run_us[old]
    state.shape_run_us[shape] = run_us if mean is None else (7 * mean + run_us) // 8
    if len(means) > MOST_LEARNED:
        for old in list(state.run_us)[: MOST_LEARNED // 2]:
            del state.run_us[old]
            state.p90_us.pop(old, None)
            state.calls_per_grant.pop(old, None)


def _learn_use_of_cap(tenant: Tenant, cap_us: int, run_us: int) -> None:
    """From the first attempt of each name: many alike tasks say nothing about how others use their caps."""
    if is_given(tenant, cap_us):
        used = min(1_000_000, run_us * 1_000_000 // cap_us)
        tenant.cap_used_ppm = (15 * tenant.cap_used_ppm + used) // 16


def _learn_p90(p90s: dict[tuple[int, int], int], key: tuple[int, int], run_us: int) -> None:
    """The estimate rises fast and falls slowly."""
    p90 = p90s.get(key)
    if p90 is None:
        if len(p90s) > MOST_LEARNED:
            for old in list(p90s)[: MOST_LEARNED // 2]:
                del p90s[old]
        p90s[key] = run_us
    elif run_us > p90:
        p90s[key] = p90 + ((run_us - p90) * 9 // 20 or 1)
    else:
        p90s[key] = p90 - (p90 - run_us) // 20


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


def surely_us(task: ReadyTask) -> int:
    """The run time that no attempt exceeds: its cap."""
    return task.cap_ms * 1000 or DAY_US


def longest_us(state: CoreState, task: ReadyTask) -> int:
    """The longest run time to expect of a task that has not started."""
    cap_us = surely_us(task)
    length_us = _length_us(state, task.tenant, task.work, task.shape, cap_us)
    return cap_us if length_us is None else min(length_us, cap_us)


def end_us(state: CoreState, running: Running, now_us: int) -> int:
    """When the attempt will probably end.

    If nothing is known of its length, or that has passed, it is expected to run for as long again as it has run.
    """
    since_us, cap_us = running.since_us, running.cap_us or DAY_US
    length_us = _length_us(state, running.tenant, running.work, running.shape, cap_us)
    if length_us is None or since_us + length_us <= now_us:
        length_us = 2 * (now_us - since_us)
    end = since_us + min(length_us, cap_us)
    return end if end > now_us else now_us + 1


def _length_us(state: CoreState, tenant: int, work: int, shape: int, cap_us: int) -> int | None:
    """Nine in ten attempts of such work are shorter; else a cap that was given; else nine in ten of the shape are."""
    p90 = state.p90_us.get((tenant, work))
    if p90 is not None:
        return p90
    if is_given(state.tenants[tenant], cap_us):
        return cap_us
    return state.shape_p90_us.get((tenant, shape))


def is_given(tenant: Tenant, cap_us: int) -> bool:
    """Whether somebody gave the cap: else it is the longest of the tenant's plan, or what that was at admission."""
    return 0 < cap_us < tenant.longest_cap_us and cap_us not in tenant.earlier_caps_us


# ---- for people ------------------------------------------------------------------------------------------------------

# Where an expected run time comes from, the best source first.
HISTORY, CAP, SHAPE, AGE = "history", "cap", "shape", "age"
SOURCES = (HISTORY, CAP, SHAPE, AGE)


class Expected(msgspec.Struct, frozen=True):
    """A run time, or the moment of an end, and where it comes from."""

    us: int
    source: str


def expected_run(state: CoreState, tenant: int, work: int, shape: int, cap_us: int) -> Expected | None:
    """The mean of such work; else what the tenant usually uses of a given cap; else the mean of the shape.

    None: nothing is known.
    """
    mean = state.run_us.get((tenant, work))
    if mean is not None:
        return Expected(min(mean, cap_us or mean), HISTORY)
    known = state.tenants.get(tenant)
    if known is not None and is_given(known, cap_us):
        return Expected(max(1, cap_us * known.cap_used_ppm // 1_000_000), CAP)
    mean = state.shape_run_us.get((tenant, shape))
    return None if mean is None else Expected(min(mean, cap_us or mean), SHAPE)


def expected_end(state: CoreState, running: Running, now_us: int) -> Expected:
    """When the attempt will probably end: if nothing is known, or that has passed, as long again as it has run."""
    since_us = running.since_us
    length = expected_run(state, running.tenant, running.work, running.shape, running.cap_us)
    if length is None or since_us + length.us <= now_us:
        again = 2 * (now_us - since_us)
        length = Expected(min(again, running.cap_us or again), AGE)
    return Expected(max(since_us + length.us, now_us + 1), length.source)
