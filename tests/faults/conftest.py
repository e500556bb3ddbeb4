"""A scene on a fresh database for every fault test; all its processes are gone when the test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.scene import MODULES, Scene
from tests.harness.cluster import Cluster


@pytest.fixture
def scene(database: str, tmp_path: Path) -> Iterator[Scene]:
    with Cluster(database, tmp_path / "cluster", modules=MODULES) as cluster:
        scene = Scene(cluster)
        yield scene
        for process in [*cluster.workers, *cluster.servers]:
            process.kill()  # what the test wanted to stop in order, it has stopped
        scene.close()
