"""What an attempt's end means for its task: the whole table, and the bounds of backing off."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.model.attempt import Outcome
from rota.model.request.retry_rules import Rule, rule_of
from rota.model.task import Lane, State
from rota.settle.verdict import MOST_LOSSES, Again, Attempted, End, backoff_ms, judge

NOW = 1_000_000_000


def attempted(**changes: object) -> Attempted:
    fields = {
        "task": 7, "number": 1, "used": 0, "losses": 0, "attempts": 3, "cancel_requested": False, "pause_requested": False,
        "lane": Lane.NORMAL, "promotes": True, "start_by_us": NOW + 3_600_000_000, "backoff_ms": 1000, "backoff_limit_ms": 300_000,
    }  # fmt: skip
    return Attempted(**{**fields, **changes})  # type: ignore[arg-type]


COUNTED = [Outcome.ERROR, Outcome.TIMEOUT, Outcome.REFUSED, Outcome.CRASHED]


def test_success_ends_the_task_whatever_was_asked_meanwhile() -> None:
    assert judge(attempted(cancel_requested=True), Outcome.OK, "", now_us=NOW) == End(State.DONE, "")


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.OK])
def test_any_other_end_of_a_task_its_owner_wants_stopped_is_a_cancel(outcome: Outcome) -> None:
    verdict = judge(attempted(cancel_requested=True), outcome, "no", now_us=NOW)
    assert verdict == End(State.CANCELLED, "cancelled by its owner while running")


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome not in (Outcome.OK, Outcome.CANCELLED)])
def test_a_pause_holds_back_what_would_have_been_tried_again_and_changes_nothing_else(outcome: Outcome) -> None:
    verdict = judge(attempted(), outcome, "no", now_us=NOW)
    paused = judge(attempted(pause_requested=True), outcome, "no", now_us=NOW)
    assert paused == (replace(verdict, paused=True) if isinstance(verdict, Again) else verdict)


@pytest.mark.parametrize("outcome", COUNTED)
def test_a_failure_with_attempts_left_backs_off(outcome: Outcome) -> None:
    verdict = judge(attempted(), outcome, "ValueError: no", now_us=NOW)
    wait_us = 1000 * backoff_ms(attempted(), 1)
    assert verdict == Again(used=1, losses=0, wake_us=NOW + wait_us, lane=Lane.NORMAL)


@pytest.mark.parametrize("outcome", COUNTED)
def test_the_last_failure_is_a_dead_letter_that_says_why(outcome: Outcome) -> None:
    verdict = judge(attempted(used=2, number=3), outcome, "ValueError: no", now_us=NOW)
    assert verdict == End(State.FAILED, "attempt 3 of 3: ValueError: no")


def test_a_task_that_asks_for_a_time_is_tried_again_then_as_long_as_it_has_attempts() -> None:
    asked = judge(attempted(), Outcome.RETRY, "busy", now_us=NOW, retry_in_ms=60_000)
    assert asked == Again(used=1, losses=0, wake_us=NOW + 60_000_000, lane=Lane.NORMAL)
    last = judge(attempted(used=2), Outcome.RETRY, "busy", now_us=NOW, retry_in_ms=60_000)
    assert last == End(State.FAILED, "attempt 3 of 3: busy; no attempts are left")


def test_a_single_attempt_is_not_counted_in_the_reason() -> None:
    assert judge(attempted(attempts=1), Outcome.ERROR, "no", now_us=NOW) == End(State.FAILED, "no")


def test_a_result_that_can_never_be_stored_is_not_tried_again() -> None:
    verdict = judge(attempted(), Outcome.BAD_RESULT, "not JSON", now_us=NOW)
    assert verdict == End(State.FAILED, "attempt 1 of 3: not JSON")


@pytest.mark.parametrize("outcome", [Outcome.RECALLED, Outcome.DISRUPTED])
def test_what_was_not_the_tasks_doing_uses_up_nothing_and_waits_for_nothing(outcome: Outcome) -> None:
    verdict = judge(attempted(used=2, losses=2), outcome, "", now_us=NOW)
    assert verdict == Again(used=2, losses=2, wake_us=None, lane=Lane.NORMAL)


def test_a_node_that_could_not_run_it_may_ask_for_it_to_wait_and_nothing_is_used_up() -> None:
    verdict = judge(attempted(used=2), Outcome.DISRUPTED, "", now_us=NOW, retry_in_ms=4_000)
    assert verdict == Again(used=2, losses=0, wake_us=NOW + 4_000_000, lane=Lane.NORMAL)


def test_a_lost_worker_is_counted_apart_from_failures() -> None:
    verdict = judge(attempted(used=2), Outcome.LOST, "", now_us=NOW)
    assert verdict == Again(used=2, losses=1, wake_us=None, lane=Lane.NORMAL)


def test_a_task_that_loses_too_many_workers_is_poison() -> None:
    verdict = judge(attempted(losses=MOST_LOSSES - 1), Outcome.LOST, "", now_us=NOW)
    assert verdict == End(State.FAILED, "poison: its worker was lost 3 times while running it")


@pytest.mark.parametrize(
    ("lane", "then"),
    [
        (Lane.OFF_PEAK, Lane.NORMAL),
        (Lane.PERIODIC, Lane.URGENT),
        (Lane.NORMAL, Lane.URGENT),
        (Lane.URGENT, Lane.URGENT),
        (7, Lane.NORMAL),  # an operator's own
    ],
)
def test_a_retry_that_will_be_late_rises_a_level(lane: int, then: Lane) -> None:
    verdict = judge(attempted(start_by_us=NOW + 1, lane=lane), Outcome.ERROR, "no", now_us=NOW)
    assert isinstance(verdict, Again)
    assert verdict.lane == then


@pytest.mark.parametrize("lane", [*Lane, 7])
def test_a_late_retry_stays_where_it_is_when_nothing_promotes_it(lane: int) -> None:
    verdict = judge(attempted(start_by_us=NOW + 1, lane=lane, promotes=False), Outcome.ERROR, "no", now_us=NOW)
    assert isinstance(verdict, Again)
    assert verdict.lane == lane


any_attempt = st.builds(
    attempted,
    task=st.integers(1, 2**62),
    number=st.integers(1, 200),
    used=st.integers(0, 99),
    attempts=st.integers(1, 100),
    backoff_ms=st.integers(0, 86_400_000),
    backoff_limit_ms=st.integers(0, 86_400_000),
)


@given(any_attempt, st.integers(1, 100))
@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_backoff_stays_within_its_bounds(task: Attempted, used: int) -> None:
    # Invariant: three quarters of the doubled backoff, capped, at least; all of it at most; never the cap exceeded.
    whole = min(task.backoff_ms * 2 ** min(used - 1, 30), task.backoff_limit_ms)
    assert whole - whole // 4 - 1 <= backoff_ms(task, used) <= whole <= task.backoff_limit_ms


@given(st.lists(st.sampled_from([*COUNTED, Outcome.LOST, Outcome.RECALLED, Outcome.DISRUPTED]), max_size=60),
       st.integers(1, 10))  # fmt: skip
@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_no_history_of_failures_uses_more_than_the_attempts_allowed(outcomes: list[Outcome], limit: int) -> None:
    # Invariant: counted attempts ≤ the limit, worker losses ≤ the cap, and either limit reached means the end.
    task = attempted(attempts=limit)
    for number, outcome in enumerate(outcomes, start=1):
        verdict = judge(attempted(attempts=limit, number=number, used=task.used, losses=task.losses), outcome, "no",
                        now_us=NOW)  # fmt: skip
        if isinstance(verdict, End):
            counted = sum(one in COUNTED for one in outcomes[:number])
            lost = outcomes[:number].count(Outcome.LOST)
            assert verdict.state is State.FAILED
            assert counted == limit or lost == MOST_LOSSES
            return
        assert verdict.used < limit
        assert verdict.losses < MOST_LOSSES
        task = attempted(attempts=limit, used=verdict.used, losses=verdict.losses)


# ---- rules ----------------------------------------------------------------------------------------------------------


def _rules(*, retry_on: tuple[str, ...] = (), fail_on: tuple[str, ...] = ()) -> tuple[Rule, ...]:
    return (*(rule_of(one, retry=False) for one in fail_on), *(rule_of(one, retry=True) for one in retry_on))


def test_rules_decide_by_exit_code_exception_and_outcome() -> None:
    some = attempted(rules=_rules(retry_on=("exit=75:30s", "exit=80-89", "error=ConnectionError", "timeout")))

    def again(outcome: Outcome, **end: object) -> bool:
        return isinstance(judge(some, outcome, "no", now_us=NOW, **end), Again)  # type: ignore[arg-type]

    assert judge(some, Outcome.ERROR, "no", now_us=NOW, exit_code=75) == Again(1, 0, NOW + 30_000_000, Lane.NORMAL)
    assert again(Outcome.ERROR, exit_code=84)
    assert not again(Outcome.ERROR, exit_code=90)
    assert again(Outcome.ERROR, error="ConnectionError")
    assert again(Outcome.ERROR, error="requests.exceptions.ConnectionError")
    assert not again(Outcome.ERROR, error="NoConnectionError")
    assert again(Outcome.TIMEOUT)
    assert not again(Outcome.CRASHED)
    verdict = judge(some, Outcome.ERROR, "exit code 1", now_us=NOW, exit_code=1)
    assert verdict == End(State.FAILED, "attempt 1 of 3: exit code 1; by its rules that is not retried")


def test_what_fails_at_once_wins_over_what_is_retried_and_leaves_the_rest_as_it_was() -> None:
    both = attempted(rules=_rules(retry_on=("exit=1-9",), fail_on=("exit=2",)))
    assert isinstance(judge(both, Outcome.ERROR, "no", now_us=NOW, exit_code=2), End)
    assert isinstance(judge(both, Outcome.ERROR, "no", now_us=NOW, exit_code=3), Again)
    only = attempted(rules=_rules(fail_on=("error=ValueError",)))
    assert isinstance(judge(only, Outcome.ERROR, "no", now_us=NOW, error="ValueError"), End)
    assert judge(only, Outcome.ERROR, "no", now_us=NOW, exit_code=1) == judge(
        attempted(), Outcome.ERROR, "no", now_us=NOW
    )


_RULE_TEXTS = st.sampled_from(
    ["exit=0-255", "exit=75", "exit=70-79", "error=ValueError", "timeout", "crashed", "refused"]
)


@given(
    retry_on=st.lists(_RULE_TEXTS, max_size=3), fail_on=st.lists(_RULE_TEXTS, max_size=3),
    delay=st.none() | st.integers(0, 3_600), outcome=st.sampled_from(list(Outcome)), exit_code=st.none() | st.integers(0, 255),
    error=st.none() | st.sampled_from(["ValueError", "KeyError"]), used=st.integers(0, 2),
)  # fmt: skip
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_rules_never_give_more_attempts_and_never_touch_what_was_not_the_tasks_doing(
    retry_on: list[str], fail_on: list[str], delay: int | None, outcome: Outcome, exit_code: int | None,
    error: str | None, used: int,
) -> None:  # fmt: skip
    # Invariant: rules only turn another attempt into an end, or change when it comes; losses, disruptions, cancels and a
    # task's own wish stay as they are.
    timed = [text if delay is None else f"{text}:{delay}s" for text in retry_on]
    rules = _rules(retry_on=tuple(timed), fail_on=tuple(fail_on))
    plain = judge(attempted(used=used), outcome, "no", now_us=NOW, exit_code=exit_code, error=error)
    ruled = judge(attempted(used=used, rules=rules), outcome, "no", now_us=NOW, exit_code=exit_code, error=error)
    if outcome not in COUNTED or isinstance(plain, End):
        assert ruled == plain
    elif isinstance(ruled, Again) and isinstance(plain, Again):
        assert (ruled.used, ruled.losses, ruled.lane) == (plain.used, plain.losses, plain.lane)
        fits = any(rule_of(text, retry=True).fits(outcome, exit_code, error) for text in retry_on)
        expected = NOW + 1_000_000 * delay if fits and delay is not None else plain.wake_us
        assert ruled.wake_us == expected


@pytest.mark.parametrize(
    ("text", "retry", "says"),
    [
        ("75", True, "is not an end"), ("exit=", True, "is not an end"), ("exit=9-1", True, "not a range"),
        ("exit=256", True, "not a range"), ("exit=1:soon", True, "soon"), ("exit=1:31d", True, "30 days"),
        ("exit=1:5s", False, "has no delay"), ("error=a b", True, "is not an end"),
    ],
)  # fmt: skip
def test_what_is_no_rule_is_refused_in_a_sentence(text: str, retry: bool, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        rule_of(text, retry=retry)
