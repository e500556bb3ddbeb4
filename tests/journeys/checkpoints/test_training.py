"""The example: training that is preempted three times by urgent work repeats no finished epoch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.harness.cluster import Cluster
from tests.journeys.checkpoints.conftest import PATIENCE_SECONDS, eventually

from rota.client._sync.client import Client
from rota.client.manifest.load import load_manifest

EXAMPLE = Path(__file__).parents[3] / "examples" / "training" / "rota.yaml"
PREEMPTIONS = 3


@pytest.fixture
def small_node(cluster: Cluster) -> Iterator[dict[str, str]]:
    """A node with room for one; the labels that lead to it."""
    worker = cluster.add_worker(capacity="cpu=1,memory=4G,disk=100G", options=("--label", "train=yes"))
    yield {"train": "yes"}
    worker.stop()


def test_training_that_is_preempted_three_times_repeats_no_finished_epoch(
    client: Client, small_node: dict[str, str]
) -> None:
    (request,) = load_manifest(EXAMPLE).tasks
    words = ["--epochs", "8", "--seconds-per-epoch", "0.4"]
    training = client.submit(
        script=request.script,
        interpreter=["python3"],
        args=words,
        name="training",  # its own: nothing is known of its length but the cap
        cpu=1,
        memory="128M",
        cap="2h",
        preemptible=True,
        require=small_node,
    )
    for attempt in range(1, PREEMPTIONS + 1):
        eventually(lambda attempt=attempt: "finished" in training.log(attempt=attempt))
        urgent = client.submit(["true"], lane="urgent", cpu=1, cap="1m", require=small_node)
        assert urgent.wait(PATIENCE_SECONDS).state == "done"
    ended = training.wait(PATIENCE_SECONDS)
    assert ended.state == "done"
    assert [attempt.outcome for attempt in training.attempts()] == ["disrupted"] * PREEMPTIONS + ["ok"]
    attempts = range(1, PREEMPTIONS + 2)
    said = [int(n) for number in attempts for n in re.findall(r"epoch (\d+) finished", training.log(attempt=number))]
    assert said == sorted(set(said)), "an epoch was finished twice"
    result = msgspec.convert(training.result(), dict[str, float])
    assert result["epoch"] == 8
    assert abs(result["slope"] - 3) < 0.5
