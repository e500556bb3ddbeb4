"""`python -m bench.slow_clients`: thousands of clients that send headers or bodies byte by byte, or read nothing, while
others work. Prints the latency of the others' tasks, from submission to the stored result, and what the node used.

The slow clients come from addresses of their own (127.0.1.1, …) and connect again as soon as they are cut off.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.harness.cluster import Cluster
from tests.harness.postgres import TestPostgres

KINDS = ("none", "silent", "heads", "bodies", "readers")
BIG = 8 * 1024 * 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.slow_clients", description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []])
    parser.add_argument("--clients", type=int, default=3000)
    parser.add_argument("--addresses", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=40.0)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that started processes are stopped
    folder = Path(tempfile.mkdtemp(prefix="rota-slow-"))
    postgres = TestPostgres(folder)
    postgres.start()
    try:
        with Cluster(postgres.create(), folder / "cluster", time_scale=1.0) as cluster:
            cluster.add_server()
            cluster.add_worker()
            artifact = _upload(cluster)
            _work(cluster, 3.0)
            for kind in chosen.kinds or KINDS:
                with _attack(cluster, kind, chosen.clients, chosen.addresses, artifact) as counted:
                    time.sleep(3 if kind != "none" else 0)
                    row = _work(cluster, chosen.seconds) | _used(cluster)
                print(json.dumps({"slow": kind, **row, **dict(zip(COUNTED, counted, strict=True))}), flush=True)
                time.sleep(3)
            print(json.dumps({"slow": "none", "after": "all", **_work(cluster, 5.0), **_used(cluster)}), flush=True)
    finally:
        postgres.stop()


# ---- others' work ----------------------------------------------------------------------------------------------------


def _work(cluster: Cluster, seconds: float) -> dict[str, object]:
    """One client submits a task, waits for its end, and again."""
    times, failed = [], 0
    end = time.monotonic() + seconds
    http = httpx.Client(
        base_url=cluster.urls[0],
        headers={"authorization": f"Bearer {cluster.tokens.admin}"},
        timeout=10,
        trust_env=False,
    )
    with http:
        while time.monotonic() < end:
            began = time.perf_counter()
            try:
                task = http.post("/v1/tasks", json={"command": ["true"]}).raise_for_status().json()["id"]
                http.post("/v1/tasks/wait", json={"ids": [task], "timeout": 5}).raise_for_status()
            except httpx.HTTPError:
                failed += 1
                continue
            times.append((time.perf_counter() - began) * 1000)
    if not times:
        return {"tasks": 0, "failed": failed}
    cuts = statistics.quantiles(times, n=100)
    return {
        "tasks": len(times),
        "failed": failed,
        "p50_ms": round(cuts[49], 1),
        "p99_ms": round(cuts[98], 1),
        "most_ms": round(max(times), 1),
    }


def _used(cluster: Cluster) -> dict[str, int]:
    pid = cluster.servers[0].pid
    status = Path(f"/proc/{pid}/status").read_text()
    memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return {"server_memory_mib": memory // 1024, "server_open_files": len(os.listdir(f"/proc/{pid}/fd"))}


def _upload(cluster: Cluster) -> str:
    headers = {"authorization": f"Bearer {cluster.tokens.admin}"}
    sent = httpx.post(f"{cluster.urls[0]}/v1/artifacts", content=os.urandom(BIG), headers=headers, trust_env=False)
    return str(sent.raise_for_status().json()["id"])


# ---- slow clients ----------------------------------------------------------------------------------------------------

COUNTED = ("slow_open", "slow_cut_off", "slow_refused")


@contextmanager
def _attack(cluster: Cluster, kind: str, clients: int, addresses: int, artifact: str) -> Iterator[list[int]]:
    """A process of its own with all slow clients. What it counted is there at the end."""
    counted = [0, 0, 0]
    if kind == "none":
        yield counted
        return
    port = int(cluster.urls[0].rpartition(":")[2])
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(
        target=_run_slow, args=(kind, port, clients, addresses, artifact, cluster.tokens.admin, theirs)
    )
    process.start()
    theirs.close()
    try:
        yield counted
        ours.send("stop")
        counted[:] = ours.recv()
    finally:
        process.terminate()
        process.join()


def _run_slow(kind: str, port: int, clients: int, addresses: int, artifact: str, token: str, pipe: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(_Slow(kind, port, artifact, token).run(clients, addresses, pipe))


class _Slow:
    def __init__(self, kind: str, port: int, artifact: str, token: str) -> None:
        self._kind = kind
        self._port = port
        self._open = self._cut_off = self._refused = 0
        who = f"host: rota\r\nauthorization: Bearer {token}\r\n"
        self._head = {
            "silent": "",
            "heads": "GET /v1/tasks HTTP/1.1\r\nhost: rota\r\n",
            "bodies": f"POST /v1/tasks HTTP/1.1\r\n{who}content-length: 1000000\r\n\r\n",
            "readers": f"GET /v1/artifacts/{artifact}/content HTTP/1.1\r\n{who}\r\n",
        }[kind].encode()

    async def run(self, clients: int, addresses: int, pipe: object) -> None:
        group = [asyncio.create_task(self._again(f"127.0.1.{1 + n % addresses}")) for n in range(clients)]
        await asyncio.to_thread(pipe.recv)  # type: ignore[attr-defined]
        pipe.send([self._open, self._cut_off, self._refused])  # type: ignore[attr-defined]
        for one in group:
            one.cancel()

    async def _again(self, address: str) -> None:
        while True:
            try:
                await self._once(address)
            except OSError:
                self._refused += 1
            await asyncio.sleep(1.0)  # a patient enemy: the test is of slowness, not of a flood

    async def _once(self, address: str) -> None:
        loop = asyncio.get_running_loop()
        plug = socket.socket()
        plug.setblocking(False)
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            plug.bind((address, 0))
            await loop.sock_connect(plug, ("127.0.0.1", self._port))
            self._open += 1
            try:
                await loop.sock_sendall(plug, self._head)
                while True:
                    await asyncio.sleep(1.0)
                    if self._kind in ("heads", "bodies"):
                        await loop.sock_sendall(plug, b"x")
                    elif self._kind == "silent":
                        plug.setblocking(False)
                        try:
                            if not plug.recv(1, socket.MSG_PEEK):
                                raise ConnectionResetError
                        except BlockingIOError:
                            pass
                    elif self._kind == "readers":
                        await loop.sock_recv(plug, 1)
            except OSError:
                self._cut_off += 1
            finally:
                self._open -= 1
        finally:
            plug.close()


if __name__ == "__main__":
    main()
