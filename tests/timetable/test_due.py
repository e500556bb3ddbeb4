"""What of a schedule is due: nothing is lost or doubled however long nobody looked, under every policy. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model.schedule.schedule import Missed, Rule, RuleKind, Schedule
from rota.timetable.due import MISSED, due_of, first_cursor
from rota.timetable.occurrences import previous

START = datetime(2026, 3, 29, 0, 10, tzinfo=UTC)  # fifty minutes before clocks change in Berlin
RULES = (
    Rule(RuleKind.EVERY, "PT7S", "UTC", START - timedelta(seconds=3)),
    Rule(RuleKind.EVERY, "PT20M", "UTC", START),
    Rule(RuleKind.CRON, "*/5 * * * *", "Europe/Berlin"),
    Rule(RuleKind.HOURLY, "30", "Australia/Lord_Howe"),
    Rule(RuleKind.DAILY, "02:30", "Europe/Berlin"),
)
PAUSES = st.lists(st.sampled_from((1, 5, 30, 59, 61, 200, 900, 4000)), min_size=1, max_size=12)


def blank(rule: Rule, **said: object) -> Schedule:
    one = Schedule(tenant=1, name="s", user="u", rule=rule, request="", **said)  # type: ignore[arg-type]
    following, before = first_cursor(one, START)
    return replace(one, next_at=following, previous_at=before)


@settings(max_examples=100, deadline=None)
@given(
    rule=st.sampled_from(RULES), pauses=PAUSES, missed=st.sampled_from(list(Missed)), limit=st.sampled_from((1, 2, 1000)),
    ends_after=st.none() | st.integers(1, 6000), max_runs=st.none() | st.integers(1, 40),
)  # fmt: skip
def test_every_instant_is_run_once_or_skipped_whoever_looks_when(
    rule: Rule, pauses: list[int], missed: Missed, limit: int, ends_after: int | None, max_runs: int | None
) -> None:
    """Invariants I15–I17: each instant until the schedule ends is one run or in one skip; in order, with its interval."""
    ends_at = None if ends_after is None else START + timedelta(seconds=ends_after)
    one = blank(rule, missed=missed, missed_limit=limit, ends_at=ends_at, max_runs=max_runs)
    every = _instants(rule, START + timedelta(seconds=sum(pauses)))
    now, ran, skipped = START, [], []
    for pause in pauses:
        now += timedelta(seconds=pause)
        if one.next_at is None or one.next_at > now:
            continue
        due = due_of(one, now)
        for at, start in due.runs:
            assert start == (previous(rule, at) or at)
            assert at > now - MISSED or missed is not Missed.SKIP
            ran.append(at)
        assert len([at for at, _ in due.runs if at <= now - MISSED]) <= {"skip": 0, "once": 1, "all": limit}[missed]
        skipped += [(skip.first, skip.until) for skip in due.skips]
        over = max_runs is not None and len(ran) >= max_runs
        assert due.next_at is None or due.next_at > now or over
        one = replace(one, next_at=None if over else due.next_at, previous_at=due.previous_at, runs=len(ran))
    assert all(before < after for before, after in pairwise(ran))
    assert max_runs is None or len(ran) <= max_runs
    ended = one.next_at is None
    for at in every:
        covered = sum(first <= at < (until or first + timedelta(microseconds=1)) for first, until in skipped)
        if at > now or (one.next_at is not None and at >= one.next_at):
            assert (ran.count(at), covered) == (0, 0)
        elif ended and ran and at > ran[-1]:
            assert ran.count(at) == 0  # it has ended
        elif not ended or at <= (ran[-1] if ran else START):
            assert ran.count(at) + covered == 1, (at, ran, skipped)
    assert set(ran) <= set(every)


def _instants(rule: Rule, until: datetime) -> list[datetime]:
    found, one = [], blank(rule)
    while one.next_at is not None and one.next_at <= until:
        found.append(one.next_at)
        following, before = first_cursor(one, one.next_at)
        one = replace(one, next_at=following, previous_at=before)
    return found
