"""A refusal says every fault, as far as one sentence can hold them."""

from __future__ import annotations

import pytest

from rota.model.errors import MOST_DETAIL, Fault, invalid
from rota.model.units import amount_text


def test_one_fault_is_the_sentence() -> None:
    assert invalid([Fault("/cap", "out-of-range", "too long")]).detail == "/cap: too long"
    assert invalid([Fault("", "out-of-range", "too long")]).detail == "too long"


def test_several_faults_are_all_in_the_sentence() -> None:
    faults = [Fault("/cap", "out-of-range", "too long"), Fault("/lane", "unknown-lane", "there is no lane x")]
    assert invalid(faults).detail == "/cap: too long; /lane: there is no lane x"
    assert invalid(faults).faults == tuple(faults)


def test_faults_beyond_the_longest_sentence_are_counted() -> None:
    problem = invalid([Fault(f"/{number}", "out-of-range", "x" * 90) for number in range(50)])
    assert len(problem.detail) <= MOST_DETAIL + 120
    assert problem.detail.endswith("; and 46 more")
    assert len(problem.faults) == 50


@pytest.mark.parametrize(
    ("number", "plural", "said"),
    [
        (0, None, "0 days"),
        (1, None, "1 day"),
        (2, None, "2 days"),
        (12_000, None, "12,000 days"),
        (3, "indexes", "3 indexes"),
    ],
)
def test_a_count_and_its_noun_agree(number: int, plural: str | None, said: str) -> None:
    assert amount_text(number, "day", plural) == said
