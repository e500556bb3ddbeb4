"""The numbers that decisions depend on, together, so that operators and the simulator set them in the same way."""

from __future__ import annotations

from dataclasses import dataclass

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    # Lanes.
    peak_ppm: int = 800_000  # the peak mark: gated lanes wait above it
    peak_slack_ppm: int = 50_000  # the peak is over at so much below the mark
    urgent_kept_ppm: int = 100_000  # capacity that only urgent work may take above the peak mark
    urgent_memory_us: int = 3_600 * SECOND_US  # kept only for so long after the last urgent work
    long_slack_us: int = 3_600 * SECOND_US  # above the peak mark, tasks with more slack than this come last
    pool_running_limit: int | None = None
    paused: bool = False  # no task starts
    elastic: bool = False  # nodes may join; only what people are told depends on it

    # Fairness.
    half_life_us: int = 3_600 * SECOND_US  # of what a tenant is charged
    unknown_run_us: int = SECOND_US  # charged at a start if the run time of such work is unknown

    # Prefetch, so that a node of short tasks is never idle for a round trip.
    ahead_us: int = 50_000
    overhead_us: int = 50
    most_behind: int = 4_000

    # Reservation and preemption.
    reserved_nodes_ppm: int = 100_000  # nodes that may be reserved for tasks that fit nowhere; at least one
    preempt_burst: int = 10
    preempt_every_us: int = SECOND_US  # one more may be asked to give way each so long
    lost_at_most_us: int = 600 * SECOND_US  # a preempted task saves its work: it loses no more than this
    gain_us: int = 5 * SECOND_US  # no task is preempted for a wait shorter than this
