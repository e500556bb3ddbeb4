"""Machines that become nodes, as an agent would over HTTP and its two connections, right or wrong in any detail."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from rota import wire
from rota.execute.identity import NodeKey
from rota.model.resources import Resources
from rota.node_identity import join_message, proof_message
from tests.api.served import Served
from tests.faults.scene import eventually

LARGE = Resources(cpu_milli=64_000, memory_bytes=2**36, disk_bytes=2**40)


def text_of(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@dataclass
class Machine:
    """One machine. `url`: the server node that it asks."""

    served: Served
    url: str
    name: str = field(default_factory=lambda: f"n-{uuid4().hex[:8]}")
    pool: str = "default"
    boot: int = 4711
    key: NodeKey = field(default_factory=lambda: NodeKey(Ed25519PrivateKey.generate()))
    token: str = ""

    def post(self, path: str, body: object = None, *, token: str = "") -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.post(f"{self.url}{path}", json=body or {}, headers=headers, timeout=30, trust_env=False)

    def challenge(self) -> tuple[str, str]:
        made = self.post("/v1/worker/challenge").json()
        return made["cluster"], made["challenge"]

    def join_body(self, **changes: object) -> dict[str, Any]:
        cluster, challenge = self.challenge()
        message = join_message(
            cluster=cluster, challenge=challenge, pool=self.pool, name=self.name, public_key=self.key.public
        )
        return {
            "pool": self.pool,
            "name": self.name,
            "public_key": text_of(self.key.public),
            "challenge": challenge,
            "signature": text_of(self.key.sign(message)),
        } | changes

    def join(self, join_token: str, **changes: object) -> httpx.Response:
        return self.post("/v1/worker/join", self.join_body(**changes), token=join_token)

    def proof_body(self, **changes: object) -> dict[str, Any]:
        cluster, challenge = self.challenge()
        message = proof_message(cluster=cluster, challenge=challenge, pool=self.pool, name=self.name, boot=self.boot)
        return {
            "pool": self.pool,
            "name": self.name,
            "boot": self.boot,
            "challenge": challenge,
            "signature": text_of(self.key.sign(message)),
        } | changes

    def prove(self, **changes: object) -> httpx.Response:
        return self.post("/v1/worker/token", self.proof_body(**changes))

    def become_node(self) -> Machine:
        """Joins and proves itself."""
        assert self.join(join_token(self.served, self.pool)).status_code == 201
        self.token = self.prove().json()["token"]
        return self

    # ---- its connections --------------------------------------------------------------------------------------------

    def get(self, path: str, **headers: str) -> httpx.Response:
        given = {"authorization": f"Bearer {self.token}", **headers}
        return httpx.get(f"{self.url}{path}", headers=given, timeout=30, trust_env=False)

    def open(self, path: str, url: str = "") -> ClientConnection:
        headers = {"Authorization": f"Bearer {self.token}"}
        address = (url or self.url).replace("http", "ws", 1) + path
        return connect(address, additional_headers=headers, max_size=None, proxy=None)

    def leader(self) -> str:
        return str(self.get(f"/v1/worker/leader?pool={self.pool}").json()["url"])

    def control(self) -> ClientConnection:
        return self.open(f"/v1/worker/control?pool={self.pool}", self.leader())

    def hello(self, **changes: object) -> bytes:
        fields: dict[str, object] = {
            "protocol": wire.PROTOCOL, "name": self.name, "boot": self.boot, "floor": 0, "capacity": LARGE,
            "labels": {"machine": self.name}, "capabilities": [], "version": "test",
        }  # fmt: skip
        return wire.encode(wire.Hello(**{**fields, **changes}))  # type: ignore[arg-type]

    @contextmanager
    def registered(self) -> Iterator[tuple[ClientConnection, int]]:
        """A control connection, and the number of the node."""
        with self.control() as socket:
            socket.send(self.hello())
            node = heard(socket, wire.Registered).node
            socket.send(wire.encode(wire.Inventory([], [])))
            yield socket, node


def heard(socket: ClientConnection, kind: type[Any]) -> Any:
    """The next frame of this kind."""
    while not isinstance(frame := wire.decode_to_agent(bytes(socket.recv(timeout=60))), kind):
        pass
    return frame


def close_of(socket: ClientConnection, timeout: float = 60) -> tuple[int, str]:
    """With which code and reason the server ends the connection."""
    try:
        while True:
            socket.recv(timeout=timeout)
    except ConnectionClosed as closed:
        assert closed.rcvd is not None, "the server closed in order, with a code"
        return closed.rcvd.code, closed.rcvd.reason


def join_token(served: Served, pool: str = "default", **fields: object) -> str:
    made = served.send("POST", "/v1/worker-keys", {"pool": pool, **fields}, token=served.cluster.tokens.admin)
    return str(made.json()["token"])


def denials(served: Served, action: str, object_id: str) -> list[str]:
    """The reasons in the audit log, once there is one: no request waits until its refusal is written."""
    question = "select reason from audit_log where action = $1 and object_id = $2 and outcome = 'denied' order by id"
    rows = eventually(lambda: served.ask(question, action, object_id), seconds=10, what=f"{action} is in the audit log")
    return [reason for (reason,) in rows]


async def all_at_once(calls: Iterable[tuple[str, dict[str, Any], str]]) -> list[httpx.Response]:
    """Posts to join, each with an address, a body and a token."""
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        return await asyncio.gather(
            *(
                client.post(f"{url}/v1/worker/join", json=body, headers={"authorization": f"Bearer {token}"})
                for url, body, token in calls
            )
        )
