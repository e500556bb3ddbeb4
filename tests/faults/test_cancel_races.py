"""Cancel races a start or a finish, a thousand times: one outcome each, and everybody is told the same one (I21)."""

from __future__ import annotations

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx

from tests.faults.scene import Scene, eventually

TASKS = 1_000
THREADS = 4
GROUP = 10
PATIENCE_SECONDS = 30
DONE, CANCELLED = 10, 12
STATES = {"done": DONE, "cancelled": CANCELLED}


@dataclass(frozen=True)
class Told:
    """What the answer to a cancel said, and when it had arrived."""

    task: int
    word: str  # cancelled | cancelling | done
    at_ns: int


class Canceller:
    """Submits a group, waits for no or a little time or for its first end, cancels all: one by one, or in one request."""

    def __init__(self, scene: Scene, number: int) -> None:
        self._scene = scene
        self._random = random.Random(number)
        self._http = httpx.Client(timeout=30, trust_env=False)
        self._http.headers["authorization"] = f"Bearer {scene.cluster.tokens.admin}"

    def run(self, groups: int) -> list[Told]:
        with self._http:
            return [told for _ in range(groups) for told in self._race()]

    def _race(self) -> list[Told]:
        seconds = self._random.choice([0.0, 0.0, 0.01, 0.03])
        make = self._scene.command if self._random.random() < 0.2 else self._scene.function
        tasks = self._scene.submit(*(make(seconds=seconds) for _ in range(GROUP)), server=self._random.randrange(2))
        url = self._random.choice(self._scene.cluster.urls)
        if self._random.random() < 0.5:  # so that also on a slow machine some have started, and some have ended
            body = {"ids": tasks, "any": True, "timeout": PATIENCE_SECONDS}
            waited = self._http.post(f"{url}/v1/tasks/wait", json=body, timeout=2 * PATIENCE_SECONDS)
            assert waited.json()["ended"], waited.text
        else:
            time.sleep(self._random.choice([0.0, self._random.uniform(0.0, 0.1)]))
        self._random.shuffle(tasks)
        return self._cancel_all(url, tasks) if self._random.random() < 0.3 else self._cancel_each(url, tasks)

    def cancel(self, tasks: list[int]) -> list[Told]:
        with self._http:
            return self._cancel_each(self._scene.cluster.urls[0], tasks)

    def _cancel_each(self, url: str, tasks: list[int]) -> list[Told]:
        told = []
        for task in tasks:
            answer = self._http.post(f"{url}/v1/tasks/{task}/cancel")
            at = time.monotonic_ns()
            document = answer.json()
            if answer.status_code == 200:
                told.append(Told(task, "cancelling" if document["cancelling"] else document["state"], at))
            else:
                assert answer.status_code == 409, answer.text
                assert document["type"].endswith("/already-terminal"), answer.text
                told.append(Told(task, document["detail"].rpartition(" ")[2], at))
        return told

    def _cancel_all(self, url: str, tasks: list[int]) -> list[Told]:
        answer = self._http.post(f"{url}/v1/tasks/cancel", json={"ids": tasks})
        at = time.monotonic_ns()
        assert answer.status_code == 200, answer.text
        document = answer.json()
        return [
            *(Told(task, "cancelled", at) for task in document["cancelled"]),
            *(Told(task, "cancelling", at) for task in document["cancelling"]),
            *(Told(refusal["id"], refusal["state"], at) for refusal in document["refused"]),
        ]


def test_a_cancel_that_races_a_start_or_a_finish_ends_in_one_outcome_and_tells_the_truth(scene: Scene) -> None:
    scene.start(servers=2, workers=1)
    with ThreadPoolExecutor(THREADS) as threads:
        races = threads.map(lambda number: Canceller(scene, number).run(TASKS // THREADS // GROUP), range(THREADS))
        told = [one for several in races for one in several]
    running = scene.submit(*(scene.command(seconds=60.0) for _ in range(2)))
    scene.until_started(running)
    told += Canceller(scene, THREADS).cancel(running)
    assert Counter(one.task for one in told) == Counter(scene.clients.tasks), "one answer for each task"
    scene.until_all_ended()

    final = {row["task"]: row["state"] for row in scene.query("select task, state from attempts where state > 0")}
    assert len(final) == TASKS + len(running)
    assert set(final.values()) == {DONE, CANCELLED}
    starts: dict[int, int] = {}
    for one in scene.executions():
        starts[one.task] = max(one.started_ns, starts.get(one.task, 0))
    for one in told:
        match one.word:
            case "cancelled":
                assert final[one.task] == CANCELLED, one
                assert starts.get(one.task, 0) < one.at_ns, f"started after its cancel was acknowledged: {one}"
            case "cancelling":
                assert final[one.task] in (DONE, CANCELLED), one
            case word:
                assert final[one.task] == STATES[word], one
    for task in random.Random(0).sample(sorted(final), 50):
        assert STATES[scene.get(f"/v1/tasks/{task}").json()["state"]] == final[task]
    words = Counter((one.word, final[one.task]) for one in told)
    assert {("cancelled", CANCELLED), ("cancelling", CANCELLED), ("done", DONE)} <= words.keys(), words
    for process in scene.cluster.servers:
        assert "term_crashed" not in process.log()
    scene.judge()


def test_a_cancel_stranded_in_its_transaction_holds_nobody_up_for_long(scene: Scene) -> None:
    """The node that cancels vanishes with the rows locked; PostgreSQL hears nothing of it."""
    scene.cluster.add_server()
    proxy = scene.add_server_behind(database=True)
    scene.cluster.add_worker(servers=scene.cluster.urls[:1])
    [blocker] = scene.submit(scene.function(seconds=1, cpu=4))
    scene.until_started([blocker])
    waiting = scene.submit(*(scene.function() for _ in range(10)))

    trap = proxy.strand_after(b"set cancel_requested")
    with httpx.Client(timeout=20, trust_env=False) as http:
        http.headers["authorization"] = f"Bearer {scene.cluster.tokens.admin}"
        answer = http.post(f"{scene.cluster.urls[1]}/v1/tasks/cancel", json={"ids": waiting})
    trap.wait()
    assert answer.status_code == 503, answer.text
    scene.cluster.servers[1].kill()

    others = scene.submit(*(scene.function() for _ in range(10)))
    scene.until_ended(waiting + others, seconds=20)
    eventually(lambda: scene.leader() == 0, seconds=5, what="the leader leads on")
    assert {state for task in waiting + others for _, state, _ in scene.attempts(task)} == {DONE}
    scene.judge()
