"""A worker's disk fills up (F24): the task runs elsewhere, the node takes nothing, and works again with space."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.faults.scene import Scene, eventually

FILL = 'if [ "$ROTA_NODE" = node-0 ]; then head -c 30000000 /dev/zero > "$HOME/../../junk"; fi'


def _full(scene: Scene) -> dict[str, object]:
    """The node that is told as full, if there is one."""
    found: list[dict[str, object]] = scene.get("/v1/nodes").json()["nodes"]
    return next((node for node in found if node["state"] == "full"), {})


def test_a_task_on_a_full_disk_runs_elsewhere_and_the_node_waits_for_space(scene: Scene) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk of 16 MiB")
    small = scene.cluster.folder / "node-0"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(small)], check=True)
    try:
        scene.cluster.add_server()
        agent = scene.cluster.add_worker(options=("--reserve-disk", "4M", "--label", "disk=small"))
        [task] = scene.submit({"command": ["sh", "-c", FILL], "isolation": "none", "cap": "60s", "disk": "100M"})
        eventually(lambda: "no work is taken" in agent.log(), seconds=20, what="the node has noticed")
        eventually(lambda: scene.attempts(task)[:1] == [(1, 0, 10)], seconds=20, what="the attempt is given up")
        assert scene.query("select state from queue where id = $1", task) != [], "it waits for another node"
        node = eventually(lambda: _full(scene), seconds=5, what="the node is told as full")
        assert node["name"] == "node-0"
        alone = "the 1 node that could hold it is out of disk space and takes nothing new"
        # It is asked for again a second later, and until then backs off.
        eventually(lambda: _why(scene, task) == ("disk-full", alone), seconds=20, what="the task is told so")

        scene.cluster.add_worker()
        scene.until_ended([task], seconds=20)
        assert scene.attempts(task) == [(1, 0, 10), (2, 10, 1)]
        [why] = scene.query("select failure->>'type' as why from attempts where task = $1 and number = 1", task)
        assert why["why"] == "worker-disk-full"

        (small / "junk").unlink()
        [picky] = scene.submit({"command": ["true"], "cap": "60s", "require": {"disk": "small"}})
        scene.until_ended([picky], seconds=20)
        assert agent.running
        eventually(lambda: not _full(scene), seconds=5, what="the node is up again")
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


def _why(scene: Scene, task: int) -> tuple[str, str]:
    found = scene.get(f"/v1/tasks/{task}/why").json()
    return found["reason"], found["sentence"]
