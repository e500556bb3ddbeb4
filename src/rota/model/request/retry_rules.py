"""Retry rules: which ends of an attempt are retried, and after which delay. Pure.

A rule is `END` or `END:DELAY`: `exit=75`, `exit=70-79`, `error=ConnectionError`, `timeout`, `exit=75:30s`.
Rules that fail the task come before all others; of the others the first match counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from rota.model.attempt import Outcome
from rota.model.units import milliseconds_of

LONGEST_DELAY_MS = 30 * 86_400_000
MOST_RULES = 50

_EXIT = re.compile(r"exit=(-?\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_ERROR = re.compile(r"error=([A-Za-z_][A-Za-z0-9_.]{0,199})", re.ASCII)
_OUTCOMES = {"timeout": Outcome.TIMEOUT, "crashed": Outcome.CRASHED, "refused": Outcome.REFUSED}
_RIGHT = "write exit=75, exit=70-79, error=ConnectionError, timeout, crashed or refused; exit=75:30s waits so long"


class Rule(msgspec.Struct, frozen=True, array_like=True):
    """Matches an exit code from `low` to `high`, an exception by its name, or an outcome. `text`: as written."""

    retry: bool
    text: str
    low: int | None = None
    high: int | None = None
    error: str | None = None
    outcome: int | None = None
    delay_ms: int | None = None

    def fits(self, outcome: Outcome, exit_code: int | None, error: str | None) -> bool:
        if self.outcome is not None:
            return outcome == self.outcome
        if self.error is not None:
            # The last part is enough: `ConnectionError` matches `requests.ConnectionError`.
            return error is not None and self.error in (error, error.rpartition(".")[2])
        return (
            exit_code is not None
            and self.low is not None
            and self.low <= exit_code <= (self.low if self.high is None else self.high)
        )


def rule_of(text: str, *, retry: bool) -> Rule:
    """Raises a ValueError that names what would be right."""
    what, colon, delay = text.strip().partition(":")
    delay_ms = None
    if colon:
        if not retry:
            raise ValueError(f"{text[:60]!r}: a fail_on rule has no delay; leave it out")
        delay_ms = milliseconds_of(delay)
        if not 0 <= delay_ms <= LONGEST_DELAY_MS:
            raise ValueError(f"{delay[:40]!r} is not from 0 to 30 days")
    if match := _EXIT.fullmatch(what):
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low or not -255 <= low <= 255 or high > 255:
            raise ValueError(f"{what!r} is not a range of exit codes from -255 to 255")
        return Rule(retry, text.strip(), low=low, high=high, delay_ms=delay_ms)
    if match := _ERROR.fullmatch(what):
        return Rule(retry, text.strip(), error=match[1], delay_ms=delay_ms)
    if what in _OUTCOMES:
        return Rule(retry, text.strip(), outcome=_OUTCOMES[what], delay_ms=delay_ms)
    raise ValueError(f"{what[:60]!r} is not an end of an attempt; {_RIGHT}")


def encode(rules: Sequence[Rule]) -> str:
    return msgspec.json.encode(rules).decode()


_decoder = msgspec.json.Decoder(tuple[Rule, ...])


def decode(text: str | None) -> tuple[Rule, ...]:
    return () if text is None else _decoder.decode(text)


def ruling(
    rules: Sequence[Rule], outcome: Outcome, exit_code: int | None, error: str | None
) -> tuple[bool, int | None]:
    """Whether to retry, and the delay if a rule gives one.

    If there are rules for what to retry, an end that matches none of them is not retried.
    """
    fitting = [rule for rule in rules if rule.fits(outcome, exit_code, error)]
    if any(not rule.retry for rule in fitting):
        return False, None
    if fitting:
        return True, fitting[0].delay_ms
    return not any(rule.retry for rule in rules), None
