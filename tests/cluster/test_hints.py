"""Hints: coalesced without losing what matters."""

from __future__ import annotations

from rota.cluster.hints import Hint


def test_merging_keeps_the_earliest_of_each_tenant_and_everything_that_was_asked() -> None:
    hint = Hint(pool=1, arrivals={1: (1, 0, 50, 0, 9)}, timers={1: 5.0}, cancelled=[(7, 1)], gone=[8])
    hint.merge(
        Hint(
            pool=1, arrivals={1: (0, 0, 90, 0, 11), 2: (1, 0, 1, 0, 1)}, timers={1: 0.5, 3: 2.0}, cancelled=[(9, 2)],
            gone=[10], poll=True,
        )
    )  # fmt: skip
    assert hint == Hint(
        pool=1, arrivals={1: (1, 0, 50, 0, 9), 2: (1, 0, 1, 0, 1)},
        other_lanes={1: [(0, 0, 90, 0, 11)]}, timers={1: 0.5, 3: 2.0},
        cancelled=[(7, 1), (9, 2)], gone=[8, 10], poll=True,
    )  # fmt: skip


def test_an_empty_hint_takes_nothing_back() -> None:
    hint = Hint(pool=1, arrivals={1: (1, 0, 50, 0, 9)}, poll=True)
    hint.merge(Hint(pool=1))
    assert hint == Hint(pool=1, arrivals={1: (1, 0, 50, 0, 9)}, poll=True)
