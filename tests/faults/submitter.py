"""A client that never gives up (or, now and then, does): submits a seeded mix of tasks while the cluster is under fire.

Every task has an idempotency key. When the answer is lost or says "not now", the same request goes to any node again
under the same keys; a few are abandoned, so that their outcome stays unknown. What it was told goes to the client log.
"""

from __future__ import annotations

import random
import threading
import time

import httpx

from tests.faults.scene import Scene, Spec

ABANDONED = 0.05  # of the requests that failed at least once
PAUSE_SECONDS = 0.1


class Submitter(threading.Thread):
    def __init__(self, scene: Scene, *, name: str, seed: int, tasks: int, seconds: float) -> None:
        super().__init__(name=name, daemon=True)
        self._scene = scene
        self._random = random.Random(seed)
        self._tasks = tasks
        self._seconds = seconds
        self.refused: list[str] = []  # answers that no fault explains
        self.tries = 0

    def run(self) -> None:
        began = time.monotonic()
        sent = 0
        with httpx.Client(timeout=15, trust_env=False) as http:
            http.headers["authorization"] = f"Bearer {self._scene.cluster.tokens.admin}"
            while sent < self._tasks:
                amount = min(self._tasks - sent, self._random.choice([1, 1, 1, 1, 10, 50]))
                self._submit(http, [self._task(sent + place) for place in range(amount)])
                sent += amount
                ahead = began + self._seconds * sent / self._tasks - time.monotonic()
                if ahead > 0:
                    time.sleep(ahead)

    def _task(self, number: int) -> Spec:
        """Mostly over at once; some take a while, some are commands, some fail the first time."""
        scene, options = self._scene, {"idempotency_key": f"{self.name}-{number}", "attempts": 10}
        kind = self._random.random()
        if kind < 0.86:
            return scene.function(**options)
        if kind < 0.92:
            return scene.function(seconds=0.3, **options)
        if kind < 0.96:
            return scene.function(failures=1, **{**options, "attempts": 3})
        return scene.command(seconds=self._random.choice([0.0, 0.3]), **options)

    def _submit(self, http: httpx.Client, tasks: list[Spec]) -> None:
        for task in tasks:
            self._scene.clients.attempt(task["idempotency_key"])
        while True:
            self.tries += 1
            url = self._random.choice(self._scene.cluster.urls)
            if self._try(http, url, tasks):
                return
            if self._random.random() < ABANDONED:
                return
            time.sleep(PAUSE_SECONDS)

    def _try(self, http: httpx.Client, url: str, tasks: list[Spec]) -> bool:
        """True when there is nothing more to do: acknowledged, or refused for good."""
        single = len(tasks) == 1
        try:
            if single:
                body = {name: value for name, value in tasks[0].items() if name != "idempotency_key"}
                headers = {"idempotency-key": tasks[0]["idempotency_key"]}
                answer = http.post(f"{url}/v1/tasks", json=body, headers=headers)
            else:
                answer = http.post(f"{url}/v1/tasks/batch", json={"tasks": tasks})
        except httpx.HTTPError as error:
            self._scene.clients.fail(repr(error))
            return False
        if answer.status_code in (200, 201):
            ids = [answer.json()["id"]] if single else answer.json()["ids"]
            for task, number in zip(tasks, ids, strict=True):
                self._scene.clients.acknowledge(task["idempotency_key"], number)
            return True
        self._scene.clients.fail(f"{answer.status_code} {answer.text[:200]}")
        if answer.status_code == 503:
            return False
        self.refused.append(f"{answer.status_code} {answer.text[:500]}")
        return True
