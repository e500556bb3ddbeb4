"""The verdict: what the outcome of an attempt means for its task. Pure; `settlement.py` writes it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rota.model.attempt import Outcome
from rota.model.request.retry_rules import Rule, ruling
from rota.model.task import Lane, State
from rota.model.units import amount_text

MOST_LOSSES = 3  # worker losses after which a task counts as poison
LONGEST_RETRY_MS = 30 * 86_400_000  # the longest delay that a task may ask for

# Not caused by the task: they use up no attempt.
FREE = frozenset({Outcome.RECALLED, Outcome.DISRUPTED})
# The outcomes to which the task's own retry rules apply.
RULED = frozenset({Outcome.ERROR, Outcome.TIMEOUT, Outcome.REFUSED, Outcome.CRASHED})
# A retry can't help.
HOPELESS = frozenset({Outcome.BAD_RESULT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """A task whose attempt has ended: its locked row."""

    task: int
    number: int
    used: int
    losses: int
    attempts: int
    cancel_requested: bool
    pause_requested: bool
    lane: int
    promotes: bool  # it has a tolerance of its own, and its lane promotes
    start_by_us: int
    backoff_ms: int
    backoff_limit_ms: int
    rules: tuple[Rule, ...] = ()  # its owner's retry rules


@dataclass(frozen=True, slots=True)
class End:
    state: State
    reason: str


@dataclass(frozen=True, slots=True)
class Again:
    """The task is due again, at once if `wake_us` is None. `paused`: only after its owner resumes it."""

    used: int
    losses: int
    wake_us: int | None
    lane: int
    paused: bool = False


Verdict = End | Again


def judge(
    attempted: Attempted,
    outcome: Outcome,
    message: str,
    *,
    now_us: int,
    retry_in_ms: int | None = None,
    exit_code: int | None = None,
    error: str | None = None,
) -> Verdict:
    """Decides the fate of the task. `message` is the outcome in one sentence, for people.

    `retry_in_ms` is the delay that the task or its node asks for. The task's retry rules match `exit_code` and `error`
    (the name of an exception).
    """
    worth, delay_ms = True, retry_in_ms
    if attempted.rules and outcome in RULED:
        worth, delay_ms = ruling(attempted.rules, outcome, exit_code, error)
    verdict = _judge(attempted, outcome, message, now_us=now_us, retry_in_ms=delay_ms, worth=worth)
    if attempted.pause_requested and isinstance(verdict, Again):
        return replace(verdict, paused=True)
    return verdict


def _judge(
    attempted: Attempted, outcome: Outcome, message: str, *, now_us: int, retry_in_ms: int | None, worth: bool
) -> Verdict:
    if outcome is Outcome.OK:
        return End(State.DONE, "")
    if outcome is Outcome.CANCELLED or attempted.cancel_requested:
        return End(State.CANCELLED, "cancelled by its owner while running")
    if outcome in FREE:
        # The node may ask for a delay: a disk that the task fills is not free at once.
        later_us = None if retry_in_ms is None else now_us + 1000 * min(max(retry_in_ms, 0), LONGEST_RETRY_MS)
        return Again(attempted.used, attempted.losses, later_us, attempted.lane)
    if outcome is Outcome.LOST:
        losses = attempted.losses + 1
        if losses >= MOST_LOSSES:
            return End(State.FAILED, f"poison: its worker was lost {amount_text(losses, 'time')} while running it")
        return Again(attempted.used, losses, None, attempted.lane)
    used = attempted.used + 1
    if outcome in HOPELESS or not worth or used >= attempted.attempts:
        spent = f"attempt {used} of {attempted.attempts}: " if attempted.attempts > 1 else ""
        why = "; by its rules that is not retried" if not worth and used < attempted.attempts else ""
        if outcome is Outcome.RETRY:
            why = "; no attempts are left"  # the message alone would promise another attempt
        return End(State.FAILED, f"{spent}{message}{why}")
    wait_ms = backoff_ms(attempted, used) if retry_in_ms is None else min(max(retry_in_ms, 0), LONGEST_RETRY_MS)
    wake_us = now_us + 1000 * wait_ms
    rises = attempted.promotes and wake_us > attempted.start_by_us
    return Again(used, attempted.losses, wake_us, risen(attempted.lane) if rises else attempted.lane)


def risen(lane: int) -> int:
    """The next lane up: urgent for the default lanes, normal for off-peak and the operators' own lanes."""
    return Lane.URGENT if lane in (Lane.URGENT, Lane.NORMAL, Lane.PERIODIC) else Lane.NORMAL


def backoff_ms(attempted: Attempted, used: int) -> int:
    """Doubles with each retry up to a limit, minus up to a quarter of jitter derived from the task's id."""
    whole = min(attempted.backoff_ms << min(used - 1, 30), attempted.backoff_limit_ms)
    spread = (attempted.task * 2_654_435_761 + attempted.number * 40_503) % 1000
    return whole - whole * spread // 4000
