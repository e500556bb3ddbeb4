"""`python -m bench.sign_in`: what a flood of wrong passwords costs others, and what the time of an answer gives away.

Three figures: how long a request of somebody else takes during the flood and without it (and how much memory the server
node gained); how long a right user needs to sign in from elsewhere during the flood; and how far the times of a wrong
password for a known and for an unknown user are apart.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
from tests.api.accounts.people import People
from tests.api.served import Served
from tests.api.sign_in.people import SignIn
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

WRONG = {"name": "victim", "password": "another long password"}
OWN = {"sec-fetch-site": "same-origin"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.sign_in", description=__doc__)
    parser.add_argument("--senders", type=int, default=4, help="processes that send wrong passwords")
    parser.add_argument("--per-second", type=int, default=1_000, help="wrong passwords in all")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--comparisons", type=int, default=60, help="of each kind, for the times of an answer")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        postgres = TestPostgres(Path(folder))
        postgres.start()
        try:
            with Cluster(postgres.create(), Path(folder) / "cluster", time_scale=1.0) as running:
                running.add_server()
                people = SignIn(People.at(Served.on(running)))
                _print("flood", _flood(people, running, chosen.senders, chosen.per_second, chosen.seconds))
                _print("times", _times(people, chosen.comparisons))
        finally:
            postgres.stop()


def _print(work: str, row: dict[str, object]) -> None:
    print(json.dumps({"work": work, **row}), flush=True)


def _flood(people: SignIn, running: Cluster, senders: int, per_second: int, seconds: float) -> dict[str, object]:
    node = psutil.Process(running.servers[0].pid)
    ann = people.user()
    calm = _others(people, lambda spent: spent > seconds / 2)
    before = node.memory_info().rss
    context = multiprocessing.get_context("spawn")
    over, said = context.Event(), context.Queue()
    most = [before]
    crowd = [
        context.Process(target=_send, args=(people.url, senders / per_second, over, said), daemon=True)
        for _ in range(senders)
    ]
    began = time.monotonic()
    for one in crowd:
        one.start()

    def watch(spent: float) -> bool:
        most[0] = max(most[0], node.memory_info().rss)
        return spent > seconds

    busy = _others(people, watch)
    sign_ins = []
    for _ in range(5):
        at = time.monotonic()
        people.signed_in(ann)
        sign_ins.append(time.monotonic() - at)
    over.set()
    spent = time.monotonic() - began
    answers: Counter[int] = Counter()
    for _ in crowd:
        answers.update(said.get(timeout=60))
    for one in crowd:
        one.join()
    return {
        "senders": senders,
        "wrong_passwords_per_second": round(sum(answers.values()) / spent),
        "answers": {str(status): count for status, count in sorted(answers.items())},
        "others_ms_calm": _summary(calm),
        "others_ms_flooded": _summary(busy),
        "times_slower": round(statistics.median(busy) / statistics.median(calm), 2),
        "memory_gained_mb": round((most[0] - before) / 1e6),
        "right_user_s": [round(one, 2) for one in sign_ins],
    }


def _send(url: str, each: float, over: Any, said: Any) -> None:
    """A process of its own: what sends must not slow down what measures."""
    answers: Counter[int] = Counter()
    host = http.client.HTTPConnection(url.partition("//")[2], timeout=60)
    headers = {**OWN, "content-type": "application/json"}
    due = time.monotonic()
    while not over.is_set():
        host.request("POST", "/v1/sign-in", json.dumps(WRONG).encode(), headers)
        answer = host.getresponse()
        answer.read()
        answers[answer.status] += 1
        due += each
        time.sleep(max(0.0, due - time.monotonic()))
    said.put(dict(answers))


def _others(people: SignIn, over: Callable[[float], bool]) -> list[float]:
    """Seconds of each request of somebody who works, one after the other."""
    found = []
    began = time.monotonic()
    headers = {"authorization": f"Bearer {people.acme.served.tokens['member']}"}
    with httpx.Client(base_url=people.url, timeout=60, trust_env=False, headers=headers) as client:
        while not over(time.monotonic() - began):
            at = time.monotonic()
            client.get("/v1/tasks").raise_for_status()
            found.append(time.monotonic() - at)
            time.sleep(0.005)
    return found


def _summary(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "median": round(1e3 * statistics.median(ordered), 2),
        "p99": round(1e3 * ordered[int(len(ordered) * 0.99)], 2),
    }


def _times(people: SignIn, comparisons: int) -> dict[str, object]:
    """In turns, so that what else the machine does falls on both."""
    known = people.user()
    found: dict[str, list[float]] = {"known": [], "unknown": []}
    for number in range(comparisons):
        for kind, name in (("known", known), ("unknown", f"nobody-{number}")):
            people.forget_attempts()
            with httpx.Client(base_url=people.url, timeout=60, trust_env=False) as client:
                client.get("/healthz")
                at = time.monotonic()
                answer = client.post("/v1/sign-in", json={**WRONG, "name": name}, headers=OWN)
                found[kind].append(time.monotonic() - at)
            assert answer.status_code == 401, answer.text
    medians = {kind: statistics.median(seconds) for kind, seconds in found.items()}
    return {
        "known_ms": _summary(found["known"]),
        "unknown_ms": _summary(found["unknown"]),
        "apart_percent": round(100 * abs(medians["known"] - medians["unknown"]) / medians["unknown"], 1),
    }


if __name__ == "__main__":
    main()
