"""Whole clusters whose only trouble is a database that is away: attempts stand still, and none is lost."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from rota.simulate.world import options, world
from rota.simulate.world.run import silence


def calm(chance: Random) -> options.Options:
    """Long tasks that all end well, and a database that goes away for up to a minute, again and again."""
    return replace(
        options.draw(chance),
        faults=("database restarts",),
        fault_seconds=20.0,
        seconds=240.0,
        long_share=0.9,
        stream=None,
        trouble=0.0,
        cancels=0.0,
        pauses=0.0,
        expiry=0.0,
        frozen_limit_seconds=3600.0,
    )


def test_a_database_that_is_away_costs_no_attempt_in_any_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "draw", calm)
    frozen = 0
    for seed in range(1, 25):
        one = world.World(seed)
        with silence():
            try:
                one.run()
            finally:
                one.end()
        assert one.auditor.killed_frozen == [], f"seed {seed}"
        assert [task for task, record in one.auditor.tasks.items() if record.losses] == [], f"seed {seed}"
        frozen += len(one.auditor.stood_still)
    assert frozen > 10, "else this shows nothing"
