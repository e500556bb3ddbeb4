"""A container task from the client to its output, through a server node and a worker of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rota import Refused
from tests.harness.archives import tar_of
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

PATIENCE_SECONDS = 30.0
GO_ON = (
    "[ -e $ROTA_CHECKPOINT/state ] && cat $ROTA_CHECKPOINT/state && exit 0; "
    "trap 'echo saved > $ROTA_CHECKPOINT/state; exit 1' TERM; echo up; while :; do sleep 0.1; done"
)


def _until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def test_an_image_finds_a_node_that_runs_containers_and_a_root_the_node_that_has_it(
    postgres: TestPostgres, tmp_path: Path, image: str, rootfs: Path
) -> None:
    with Cluster(postgres.create(), tmp_path) as cluster:
        cluster.add_server()
        cluster.add_worker(options=("--engine", "podman", "--rootfs", f"busybox:{rootfs}"))
        with cluster.client() as client:
            for name in (image, "rootfs:busybox"):
                task = client.submit(["cat", "/etc/who"], image=name, isolation="container", unplaceable="wait")
                assert task.wait(timeout=30).state == "done"
                assert task.log() == "a system of its own\n"
                script = b"#!/bin/sh\ncat /etc/who brought/it src/a > out && echo $1\n"
                brings = client.submit(
                    upload=script,
                    args=["word"],
                    files={"brought/it": b"a file\n"},
                    archive=tar_of(("src/a", b"packed\n")),
                    outputs=["out"],
                    image=name,
                    isolation="container",
                    memory="256M",
                    unplaceable="wait",
                )
                ended = brings.wait(timeout=60)
                assert (ended.state, brings.log()) == ("done", "word\n"), ended
                assert client.artifacts.read(ended.outputs[0].artifact) == b"a system of its own\na file\npacked\n"
                goes_on = client.submit(["sh", "-c", GO_ON], image=name, isolation="container", unplaceable="wait")
                _until(lambda: "up" in goes_on.log())  # noqa: B023
                goes_on.pause()
                _until(lambda: goes_on.state == "paused")  # noqa: B023
                goes_on.resume()
                assert goes_on.wait(timeout=60).state == "done"
                assert goes_on.log(attempt=2) == "saved\n"
            with pytest.raises(Refused, match="has the root debian; there are rootfs:busybox"):
                client.submit(["true"], image="rootfs:debian")
            with pytest.raises(Refused, match="is not an image"):
                client.submit(["true"], image="--privileged")
