"""The workloads: each measures one promise and prints one JSON line for each repetition."""

from __future__ import annotations

import asyncio
import statistics
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from bench.stand import SHM, Stand, batch_body

SMALL_BACKLOGS = 4

NOOP: dict[str, object] = {"function": "bench.tasks:noop"}
TRUE: dict[str, object] = {"command": ["/bin/true"]}


def functions(stand: Stand, *, count: int, repetitions: int) -> None:
    """No-op Python functions end to end: submitted over HTTP, durable, run in warm processes, results stored."""
    warm_up(stand)
    for _ in range(repetitions):
        stand.reset()
        stored, before, began = stand.stored(), stand.mark(), time.perf_counter()
        ids, submitted = submit_from_two(stand, NOOP, count, 1000)
        finished = stand.wait_done(count, 120) and stand.wait_stored(stored + count, 60)
        took, after = time.perf_counter() - began, stand.mark()
        settle(stand, ids)  # checks every task, outside the measured time
        stand.report(
            "functions",
            count,
            before,
            after,
            complete=finished,
            submit_per_second=round(count / submitted),
            end_to_end_per_second=round(count / took),
        )


def batches(stand: Stand, *, count: int, repetitions: int) -> None:
    """Durable batch submission alone, no worker attached."""
    for _ in range(repetitions):
        before = stand.mark()
        _, seconds = submit(stand, NOOP, count, 1000)
        stand.report("batch submission", count, before, submit_per_second=round(count / seconds))


def singles(stand: Stand, *, count: int, clients: int) -> None:
    """One task in each request, 32 concurrent clients, each waiting for its answer."""
    before = stand.mark()
    took, slowest = asyncio.run(_single_clients(stand, count, clients))
    stand.report(
        "single submission",
        count,
        before,
        clients=clients,
        submit_per_second=round(count / took),
        p50_ms=round(statistics.median(slowest) * 1e3, 2),
        p99_ms=round(statistics.quantiles(slowest, n=100)[98] * 1e3, 2),
    )


def latency(stand: Stand, *, count: int) -> None:
    """An idle system: the time from just before the request to the first line of the function."""
    warm_up(stand)
    stand.reset()
    before = stand.mark()
    with stand.client() as client:
        for number in range(count):
            task = {"function": "bench.tasks:stamp", "args": [time.time_ns()]}
            client.post("/v1/tasks", json=task).raise_for_status()
            end = time.monotonic() + 10
            while Path(f"{SHM}-stamps").stat().st_size < (number + 1) * 16 and time.monotonic() < end:
                time.sleep(0.0005)
            time.sleep(0.005)  # the system settles the task and is idle again
    stamps = Path(f"{SHM}-stamps").read_bytes()
    waits = sorted((b - a) / 1e6 for a, b in struct.iter_unpack("qq", stamps))
    stand.report(
        "idle latency",
        len(waits),
        before,
        p50_ms=round(waits[len(waits) // 2], 2),
        p99_ms=round(waits[int(len(waits) * 0.99)], 2),
    )


def backlog(stand: Stand, *, sizes: tuple[int, ...], window: float) -> None:
    """The drain rate of a large backlog, compared with a small one.

    The small one takes a moment and the machine's speed varies, so it is measured several times before and after the
    large one.
    """
    small = sizes[0]
    for size in sizes[1:]:
        around = [_drain(stand, small, window)[0] for _ in range(SMALL_BACKLOGS)]
        before = stand.mark()
        rate, drained, fill = _drain(stand, size, window)
        _wait_empty(stand)
        after = stand.mark()
        around += [_drain(stand, small, window)[0] for _ in range(SMALL_BACKLOGS)]
        usual = statistics.median(around)
        stand.report(
            "backlog",
            size,
            before,
            after,
            waiting=size,
            drained_in_window=drained,
            fill_per_second=fill,
            drain_per_second=round(rate),
            small=small,
            small_drain_per_second=round(usual),
            against_small=round(rate / usual, 2),
            leader_rss_mib=_rss_mib(stand),
        )


def _drain(stand: Stand, size: int, window: float) -> tuple[float, int, int]:
    """Fills without a worker, starts one, and measures: stored results per second, their number, submits per second.

    From the first function's run to the last result's commit: a task that only waits on the node is not drained yet.
    """
    if stand.worker is not None:
        stand.worker.stop()
    _wait_empty(stand)
    _, seconds = submit(stand, NOOP, size, min(size, 5000))
    stand.reset()
    first = stand.stored()
    stand.start_worker()
    end = time.monotonic() + 60
    while not stand.done() and time.monotonic() < end:
        time.sleep(0.001)
    began = time.perf_counter()
    stand.wait_stored(first + size, window)
    drained, took = stand.stored() - first, time.perf_counter() - began
    stand.wait_stored(first + size, 300)
    return drained / took, drained, round(size / seconds)


def processes(stand: Stand, *, count: int, repetitions: int) -> None:
    """/bin/true as process tasks without a sandbox, compared with the cost of a bare spawn."""
    stand.start_worker()
    settle(stand, submit(stand, TRUE, 100, 100)[0])
    for _ in range(repetitions):
        first = _bare_spawns(count // 4)
        before, began = stand.mark(), time.perf_counter()
        ids, _ = submit(stand, TRUE, count, 1000)
        settle(stand, ids)
        took, after = time.perf_counter() - began, stand.mark()
        bare, spawn_us = ((one + other) / 2 for one, other in zip(first, _bare_spawns(count // 4), strict=True))
        worker_us = (after["worker"] - before["worker"]) / count * 1e6
        stand.report(
            "processes",
            count,
            before,
            after,
            end_to_end_per_second=round(count / took),
            bare_spawns_per_second=round(bare),
            against_bare=round(count / took / bare, 2),
            bare_spawn_cpu_us=round(spawn_us),
            agent_cpu_us_over_bare_spawn=round(worker_us - spawn_us),
        )


def _bare_spawns(count: int) -> tuple[float, float]:
    """Two processes that only spawn /bin/true and wait for it: spawns per second, and µs of CPU for each."""
    began = time.perf_counter()
    argv = [sys.executable, "-S", "-c", _SPAWN, str(count)]
    loops = [subprocess.Popen(argv, env={}, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    used = [float(loop.communicate()[0]) for loop in loops]
    return 2 * count / (time.perf_counter() - began), sum(used) / (2 * count) * 1e6


_SPAWN = """
import os, sys
before = sum(os.times()[:4])
for _ in range(int(sys.argv[1])):
    os.waitpid(os.posix_spawn("/bin/true", ["/bin/true"], {}), 0)
print(sum(os.times()[:4]) - before)
"""


# ---- parts of workloads -------------------------------------------------------------------------------------------


def submit(stand: Stand, task: dict[str, object], count: int, batch: int) -> tuple[list[int], float]:
    whole, rest = batch_body(min(batch, count), task), batch_body(count % batch or batch, task)
    ids: list[int] = []
    with stand.client() as client:
        began = time.perf_counter()
        for first in range(0, count, batch):
            answer = client.post("/v1/tasks/batch", content=whole if first + batch <= count else rest)
            answer.raise_for_status()
            ids += answer.json()["ids"]
        return ids, time.perf_counter() - began


def submit_from_two(stand: Stand, task: dict[str, object], count: int, batch: int) -> tuple[list[int], float]:
    """Two clients, so that the figure does not depend on one client's wait for its answers."""
    began = time.perf_counter()
    with ThreadPoolExecutor(2) as clients:
        halves = list(clients.map(lambda _: submit(stand, task, count // 2, batch)[0], range(2)))
    return halves[0] + halves[1], time.perf_counter() - began


def warm_up(stand: Stand) -> None:
    if stand.worker is None or not stand.worker.running:
        stand.start_worker()
    settle(stand, submit(stand, NOOP, 400, 200)[0])


def settle(stand: Stand, ids: list[int]) -> None:
    for begin in range(0, len(ids), 10_000):
        stand.wait_settled(ids[begin : begin + 10_000], 300)


def _wait_empty(stand: Stand) -> None:
    end = time.monotonic() + 60
    while stand.live() and time.monotonic() < end:
        time.sleep(0.02)


def _rss_mib(stand: Stand) -> int:
    assert stand.server is not None
    text = Path(f"/proc/{stand.server.pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS"))) // 1024


async def _single_clients(stand: Stand, count: int, clients: int) -> tuple[float, list[float]]:
    """A bare keep-alive client, so that the client's own cost hardly counts."""
    address = urlsplit(stand.cluster.urls[0])
    body = b'{"function":"bench.tasks:noop"}'
    head = (
        f"POST /v1/tasks HTTP/1.1\r\nhost: {address.netloc}\r\nauthorization: Bearer {stand.cluster.tokens.admin}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode()
    waits: list[float] = []

    async def send(requests: int) -> None:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        for _ in range(requests):
            began = time.perf_counter()
            writer.write(head + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 201"):
                raise RuntimeError(answer.decode())
            length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            waits.append(time.perf_counter() - began)
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(send(count // clients) for _ in range(clients)))
    return time.perf_counter() - began, waits
