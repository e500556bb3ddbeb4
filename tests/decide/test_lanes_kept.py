"""What is kept for urgent work for an hour stays kept for ever if nothing ends."""

from __future__ import annotations

from rota.model.task import Lane
from tests.decide.scene import Scene


def test_what_was_kept_is_given_away_when_the_hour_is_over_though_nothing_ended() -> None:
    scene = Scene()
    seen = scene.task(lane=Lane.URGENT, tenant=9)
    worker = scene.worker(cpus=20).expects(seen)
    scene.decide()
    scene.ends(seen)
    tasks = scene.tasks(20)
    worker.expects(*tasks[:18])
    scene.decide()
    scene.later(seconds=3601)
    worker.expects(*tasks[18:])
    scene.decide()
