"""An edit races a start, hundreds of times: it was in time and holds, or it is refused. There is no third way (R50).

Holds and a paused pool outlive the leader that heard of them.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.faults.scene import Scene, eventually

TASKS = 200
THREADS = 4
GROUP = 5
DONE = 10


class Mover:
    """Submits a group, waits for no or a little time, and moves all of it to a pool where nobody works."""

    def __init__(self, scene: Scene, number: int) -> None:
        self._scene = scene
        self._random = random.Random(number)
        self._http = httpx.Client(timeout=30, trust_env=False)
        self._http.headers["authorization"] = f"Bearer {scene.cluster.tokens.admin}"

    def run(self, groups: int) -> dict[int, int]:
        """Task → the answer's status."""
        with self._http:
            return {task: status for _ in range(groups) for task, status in self._race()}

    def _race(self) -> list[tuple[int, int]]:
        make = self._scene.function
        tasks = self._scene.submit(*(make() for _ in range(GROUP)), server=self._random.randrange(2))
        time.sleep(self._random.choice([0.0, self._random.uniform(0.0, 0.05)]))
        self._random.shuffle(tasks)
        url = self._random.choice(self._scene.cluster.urls)
        return [(task, self._move(url, task)) for task in tasks]

    def _move(self, url: str, task: int) -> int:
        answer = self._http.patch(f"{url}/v1/tasks/{task}", json={"pool": "quiet"}, headers={"if-match": "0"})
        if answer.status_code == 409:
            slug = answer.json()["type"].rpartition("/")[2]
            assert slug in ("already-running", "already-terminal"), answer.text
        else:
            assert answer.status_code == 200, answer.text
            assert (answer.json()["pool"], answer.json()["state"]) == ("quiet", "ready")
        return answer.status_code


def test_an_edit_that_races_a_start_comes_before_it_or_is_refused_and_holds_outlive_a_leader(scene: Scene) -> None:
    scene.start(servers=2, workers=1)
    scene.query("insert into pools (name) values ('quiet') returning id")
    with ThreadPoolExecutor(THREADS) as threads:
        races = threads.map(lambda number: Mover(scene, number).run(TASKS // THREADS // GROUP), range(THREADS))
        told = {task: status for several in races for task, status in several.items()}
    assert Counter(told.values()).keys() == {200, 409}, "both ways were met"
    refused = sorted(task for task, status in told.items() if status == 409)
    moved = sorted(task for task, status in told.items() if status == 200)
    scene.until_ended(refused, seconds=30)
    # What was told to have moved is there, and was never started where it had been.
    rows = scene.query(
        """select id, state, attempt from queue where pool = (select id from pools where name = 'quiet') order by id"""
    )
    assert [(row["id"], row["state"], row["attempt"]) for row in rows] == [(task, 3, 0) for task in moved]
    assert {one.task for one in scene.executions()} == set(refused)
    # And it is the task it was: moved back, it runs, but for those that are held; whoever leads.
    with httpx.Client(timeout=30, trust_env=False) as http:
        http.headers["authorization"] = f"Bearer {scene.cluster.tokens.admin}"
        assert http.post(f"{scene.cluster.urls[0]}/v1/tasks/hold", json={"ids": moved[:3]}).status_code == 200
        for task in moved[3:]:
            path = f"{scene.cluster.urls[0]}/v1/tasks/{task}"
            answer = http.patch(path, json={"pool": "default"}, headers={"if-match": "1"})
            assert answer.status_code == 200, answer.text
        for task in moved[:3]:
            path = f"{scene.cluster.urls[0]}/v1/tasks/{task}"
            assert http.patch(path, json={"pool": "default"}, headers={"if-match": "2"}).json()["state"] == "paused"
        assert http.post(f"{scene.cluster.urls[0]}/v1/pools/default/pause").json()["paused"]
        [late] = scene.submit(scene.function())
        leads = scene.leader()
        assert leads is not None
        scene.cluster.servers[leads].kill()
        url = scene.cluster.urls[1 - leads]
        eventually(
            lambda: http.get(f"{url}/v1/tasks/{late}/why").json()["reason"] == "pool-paused", seconds=30,
            what="the next leader knows that the pool is paused",
        )  # fmt: skip
        assert http.post(f"{url}/v1/pools/default/resume").json()["paused"] is False
        scene.until_ended([late, *moved[3:]], seconds=30)
        states = {http.get(f"{url}/v1/tasks/{task}").json()["state"] for task in moved[:3]}
        assert states == {"paused"}
        assert http.post(f"{url}/v1/tasks/release", json={"ids": moved[:3]}).json()["released"] == moved[:3]
        scene.cluster.servers[leads].start()
    scene.until_all_ended()
    final = {row["task"]: row["state"] for row in scene.query("select task, state from attempts where state > 0")}
    assert set(final.values()) == {DONE}
    assert len(final) == TASKS + 1
    eventually(lambda: not scene.query("select id from queue"), seconds=20, what="nothing is left")
    scene.judge()
