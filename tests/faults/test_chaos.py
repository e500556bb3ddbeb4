"""Chaos: anything is killed at any moment while tasks flow, and afterwards the history is right (I1, I5, I6, I10, I11,
I22, I24; F1, F3, F7–F11, F16–F19, F21, F34).

Two server nodes, two workers and a PostgreSQL of its own, all real processes with timings scaled to a fifth. The seed
decides who is killed and when; `ROTA_CHAOS_SEED` sets it, and every run prints it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.nemesis import Nemesis
from tests.faults.scene import MODULES, Scene
from tests.faults.submitter import Submitter
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

SUBMITTERS = 2


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[TestPostgres]:
    postgres = TestPostgres(tmp_path / "pg")
    postgres.start()
    yield postgres
    postgres.stop()


def _seed(default: int) -> int:
    return int(os.environ.get("ROTA_CHAOS_SEED", default))


@pytest.mark.parametrize("seed", [1])
def test_whatever_is_killed_every_acknowledged_task_ends_once_and_nothing_is_left(
    own_postgres: TestPostgres, tmp_path: Path, seed: int
) -> None:
    _storm(own_postgres, tmp_path, seed=_seed(seed), kills=16, tasks=5_000, seconds=35)


@pytest.mark.long
def test_a_hundred_kills_change_nothing(own_postgres: TestPostgres, tmp_path: Path) -> None:
    seed = _seed(random.SystemRandom().randrange(1_000_000))
    _storm(own_postgres, tmp_path, seed=seed, kills=100, tasks=20_000, seconds=200)


def _storm(postgres: TestPostgres, folder: Path, *, seed: int, kills: int, tasks: int, seconds: float) -> None:
    print(f"\nROTA_CHAOS_SEED={seed}")
    with Cluster(postgres.create(), folder / "cluster", modules=MODULES) as cluster:
        for _ in range(2):
            cluster.add_server()
        for _ in range(2):
            cluster.add_worker()
        scene = Scene(cluster)
        submitters = [
            Submitter(scene, name=f"client-{number}", seed=seed + number, tasks=tasks // SUBMITTERS, seconds=seconds)
            for number in range(SUBMITTERS)
        ]
        nemesis = Nemesis(scene, postgres, seed=seed, pause_seconds=(0.4, 2 * seconds / kills - 0.4))
        for submitter in submitters:
            submitter.start()
        nemesis.run(kills=kills, until=lambda: not any(submitter.is_alive() for submitter in submitters))
        print("\n".join(nemesis.story))
        print(
            f"{dict(nemesis.kills)}; {len(scene.clients.tasks)} acknowledged, {len(scene.clients.unknown)} unknown, "
            f"{len(scene.clients.errors)} errors in {sum(submitter.tries for submitter in submitters)} tries"
        )
        assert [refusal for submitter in submitters for refusal in submitter.refused] == []
        scene.judge()
        scene.close()
