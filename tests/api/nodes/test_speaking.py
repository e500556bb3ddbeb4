"""C11: a node speaks for itself only: it can't register as another, nor send another's output, progress, results or files.

Node A and node B are real to the server nodes; each test lets A say what only B may, and looks that nothing came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection

from rota import wire
from rota.model.attempt import LogChunk, Outcome
from rota.model.progress import Progress, ReportedProgress
from rota.model.task import State
from rota.node_identity import NodeClaim, NodeTokens
from tests.api.nodes.machines import Machine, close_of, denials, heard, join_token
from tests.api.served import Served, problem
from tests.faults.scene import eventually

New = Callable[..., Machine]
PROMISED_SECONDS = 5.0


@dataclass
class Pair:
    """Two connected nodes, and a task that the leader has sent to the second."""

    a: Machine
    b: Machine
    from_a: ClientConnection
    from_b: ClientConnection
    run: wire.Run

    @property
    def task(self) -> int:
        return self.run.task


@pytest.fixture
def pair(two: Served, machine: New) -> Iterator[Pair]:
    a, b = machine(boot=1001).become_node(), machine(boot=1002).become_node()
    with a.registered() as (from_a, _), b.registered() as (from_b, _):
        task = two.submit(require={"machine": b.name}, cap="1h")
        [run] = heard(from_b, wire.Start).runs
        assert run.task == task
        yield Pair(a, b, from_a, from_b, run)


def _state(two: Served, task: int) -> int:
    [(state,)] = two.ask("select coalesce((select state from queue where id = $1), 0)", task)
    return int(state)


def _sent(sender: Machine, url: str, *chunks: LogChunk) -> wire.LogStored:
    with sender.open("/v1/worker/logs", url) as socket:
        socket.send(wire.encode(wire.LogBatch(7, list(chunks))))
        stored: wire.LogStored = heard(socket, wire.LogStored)
        return stored


def _output(two: Served, task: int) -> list[bytes]:
    return [data for (data,) in two.ask("select data from log_chunks where task = $1 order by seq", task)]


# ---- registering ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["name", "unknown name", "boot"])
def test_a_node_can_not_register_as_another(two: Served, machine: New, change: str) -> None:
    a, b = machine().become_node(), machine().become_node()
    said: dict[str, object] = {"name": {"name": b.name}, "unknown name": {"name": "nobody"}, "boot": {"boot": 5}}[
        change
    ]
    with a.control() as socket:
        socket.send(a.hello(**said))
        code, reason = close_of(socket)
    assert code == wire.CLOSE_NOT_YOURS
    assert a.name in reason
    assert denials(two, "node.connect", str(said.get("name", a.name)))
    assert two.ask("select from nodes where name in ($1, 'nobody')", b.name) == []


def test_a_node_can_not_speak_in_another_pool(two: Served, machine: New) -> None:
    a = machine().become_node()
    answer = a.get("/v1/worker/leader?pool=gpu")
    assert (answer.status_code, problem(answer).slug) == (403, "wrong-pool")
    with pytest.raises(InvalidStatus) as refused, a.open("/v1/worker/control?pool=gpu", a.leader()):
        pass
    assert refused.value.response.status_code == 403
    assert len(denials(two, "node.connect", "gpu/?")) == 1


def test_a_node_token_opens_the_routes_of_agents_only(two: Served, machine: New) -> None:
    a = machine().become_node()
    for path in ("/v1/tasks", "/v1/nodes", "/v1/secrets", "/v1/worker-keys", "/v1/me"):
        answer = a.get(path)
        assert (answer.status_code, problem(answer).slug) == (403, "missing-scope"), path
    said = a.get("/v1/whoami").json()
    assert (said["kind"], said["credential"]) == ("node", f"node default/{a.name}")


@pytest.mark.parametrize("part", [1, 2, 3, 4])
def test_a_changed_node_token_is_none(two: Served, machine: New, part: int) -> None:
    a = machine().become_node()
    words = a.token.removeprefix("rota_node_").split("_", 3)
    words[part - 1] = str(int(words[part - 1]) + 1) if part < 4 else words[part - 1][::-1]
    a.token = "rota_node_" + "_".join(words)
    assert a.get("/v1/worker/leader").status_code == 401


def test_a_node_token_ends(two: Served, machine: New) -> None:
    a = machine().become_node()
    [(secret, identity, now_us)] = two.ask(
        """select cluster.secret, node_keys.id, (extract(epoch from now()) * 1000000)::bigint
            from cluster, node_keys where node_keys.name = $1""",
        a.name,
    )
    tokens = NodeTokens(secret)
    a.token = tokens.make(NodeClaim(identity, a.boot, now_us - 1))
    assert a.get("/v1/worker/leader").status_code == 401
    a.token = tokens.make(NodeClaim(identity, a.boot, now_us + 60_000_000))
    assert a.get("/v1/worker/leader").status_code == 200


# ---- output, progress, results --------------------------------------------------------------------------------------


def test_output_of_another_nodes_attempt_is_dropped_and_audited(two: Served, pair: Pair) -> None:
    own = LogChunk(pair.task, 1, 0, 1, b"of b")
    for number, url in enumerate(two.cluster.urls):
        assert _sent(pair.a, url, LogChunk(pair.task, 1, number, 1, b"of a")) == wire.LogStored(7), "not sent again"
    assert _output(two, pair.task) == []
    assert denials(two, "node.log", f"default/{pair.a.name}")
    assert _sent(pair.b, two.cluster.urls[1], own) == wire.LogStored(7)
    assert _output(two, pair.task) == [b"of b"]


def test_a_batch_with_some_foreign_output_keeps_the_rest(two: Served, pair: Pair) -> None:
    mine = two.submit(require={"machine": pair.a.name}, cap="1h")
    heard(pair.from_a, wire.Start)
    _sent(pair.a, two.cluster.urls[0], LogChunk(pair.task, 1, 0, 1, b"of a"), LogChunk(mine, 1, 0, 1, b"own"))
    assert (_output(two, pair.task), _output(two, mine)) == ([], [b"own"])


def test_late_output_is_taken_of_the_attempts_own_node_only(two: Served, pair: Pair) -> None:
    result = wire.Result(pair.task, 1, Outcome.OK, 5)
    pair.from_b.send(wire.encode(wire.Results([result])))
    heard(pair.from_b, wire.Settled)
    for sender, text in ((pair.a, b"of a"), (pair.b, b"of b")):
        _sent(sender, two.cluster.urls[0], LogChunk(pair.task, 1, 0, 1, text))
    assert _output(two, pair.task) == [b"of b"]


def test_an_earlier_boot_sends_no_more_output(two: Served, pair: Pair, machine: New) -> None:
    """A node token that was stolen is of no use for output as soon as the agent has started anew."""
    old = Machine(two, pair.b.url, name=pair.b.name, key=pair.b.key, boot=pair.b.boot, token=pair.b.token)
    pair.from_b.close()
    pair.b.boot += 1
    pair.b.token = pair.b.prove().json()["token"]
    with pair.b.registered():
        _sent(old, two.cluster.urls[0], LogChunk(pair.task, 1, 0, 1, b"old"))
    assert _output(two, pair.task) == []


def test_progress_of_another_nodes_attempt_is_dropped(two: Served, pair: Pair) -> None:
    def told(sender: Machine, message: str) -> list[tuple[Any, ...]]:
        with sender.open("/v1/worker/logs") as socket:
            report = ReportedProgress(pair.task, 1, Progress(0.5, message))
            socket.send(wire.encode(wire.ProgressBatch([report])))
            socket.send(wire.encode(wire.LogBatch(1, [])))  # answered after it
            heard(socket, wire.LogStored)
        return two.ask("select message from progress where task = $1", pair.task)

    assert told(pair.a, "from a") == []
    assert told(pair.b, "from b") == [("from b",)]


def test_a_result_of_another_nodes_attempt_changes_nothing(two: Served, pair: Pair) -> None:
    foreign = wire.Result(pair.task, 1, Outcome.OK, 5, result=b'"of a"', log=[LogChunk(pair.task, 1, 0, 1, b"of a")])
    pair.from_a.send(wire.encode(wire.Results([foreign])))
    pair.from_a.send(wire.encode(wire.Recalled([(pair.task, 1)])))
    pair.from_a.send(wire.encode(wire.Inventory([], [(pair.task, 1)])))
    heard(pair.from_a, wire.Settled)  # the frame has been worked on
    assert (_state(two, pair.task), _output(two, pair.task)) == (State.RUNNING.value, [])
    pair.from_b.send(wire.encode(wire.Results([wire.Result(pair.task, 1, Outcome.OK, 5, result=b'"of b"')])))
    heard(pair.from_b, wire.Settled)
    assert two.ask("select result::text from attempts where task = $1", pair.task) == [('"of b"',)]


def test_a_result_brings_no_output_of_another_attempt(two: Served, pair: Pair) -> None:
    mine = two.submit(require={"machine": pair.a.name}, cap="1h")
    heard(pair.from_a, wire.Start)
    chunks = [LogChunk(pair.task, 1, 0, 1, b"of a"), LogChunk(mine, 1, 0, 1, b"own")]
    pair.from_a.send(wire.encode(wire.Results([wire.Result(mine, 1, Outcome.OK, 5, log=chunks)])))
    heard(pair.from_a, wire.Settled)
    assert (_output(two, pair.task), _output(two, mine)) == ([], [b"own"])


def test_late_output_in_a_result_is_kept_of_the_attempts_own_node(two: Served, pair: Pair) -> None:
    """The attempt has ended for the cluster, and its node reports it once more, now with output."""
    pair.from_b.send(wire.encode(wire.Results([wire.Result(pair.task, 1, Outcome.OK, 5)])))
    heard(pair.from_b, wire.Settled)
    for socket, text in ((pair.from_a, b"of a"), (pair.from_b, b"of b")):
        late = wire.Result(pair.task, 1, Outcome.OK, 5, log=[LogChunk(pair.task, 1, 0, 1, text)])
        socket.send(wire.encode(wire.Results([late])))
        heard(socket, wire.Settled)
    assert _output(two, pair.task) == [b"of b"]


# ---- files and once -------------------------------------------------------------------------------------------------


def _ask(sender: Machine, method: str, path: str, boot: int, body: bytes | None = None) -> httpx.Response:
    headers = {"authorization": f"Bearer {sender.token}", "x-rota-boot": str(boot)}
    return httpx.request(method, f"{sender.url}{path}", content=body, headers=headers, timeout=30, trust_env=False)


@pytest.mark.parametrize("knows_boot", [False, True])
def test_files_of_another_nodes_attempt_are_not_there(two: Served, pair: Pair, knows_boot: bool) -> None:
    at = f"/v1/worker/attempts/{pair.task}/1"
    boot = pair.b.boot if knows_boot else pair.a.boot
    for method, path, body in (
        ("GET", f"{at}/objects", None),
        ("PUT", f"{at}/objects/checkpoint?name=x", b"x"),
        ("GET", f"{at}/objects/1/content", None),
        ("GET", f"{at}/artifacts/sha256:{'0' * 64}", None),
        ("POST", f"{at}/stages", b'{"name":"s","number":1,"count":1,"seconds":1}'),
    ):
        assert _ask(pair.a, method, path, boot, body).status_code == 404, path
    assert denials(two, "node.transfer", f"default/{pair.a.name}")
    assert _ask(pair.b, "GET", f"{at}/objects", pair.b.boot).status_code == 200
    assert _ask(pair.b, "GET", f"{at}/objects", pair.a.boot).status_code == 404, "not the boot of its token"


def test_once_is_asked_for_own_attempts_only(two: Served, pair: Pair) -> None:
    ask = {"task": pair.task, "attempt": 1, "action": "claim", "key": f"k{pair.task}", "nonce": "n"}
    foreign = pair.a.post("/v1/worker/once", ask, token=pair.a.token)
    assert (foreign.status_code, problem(foreign).slug) == (409, "not-running")
    assert pair.b.post("/v1/worker/once", ask, token=pair.b.token).json()["state"] == "first"


# ---- workers' tokens ------------------------------------------------------------------------------------------------


def test_a_workers_token_still_works_for_a_node_without_a_key(two: Served, machine: New) -> None:
    old = machine(token=two.tokens["worker"], boot=77)
    with old.registered() as (socket, _):
        task = two.submit(require={"machine": old.name}, cap="1h")
        heard(socket, wire.Start)
        _sent(old, two.cluster.urls[1], LogChunk(task, 1, 0, 1, b"old"))
        assert _output(two, task) == [b"old"]
        assert _ask(old, "GET", f"/v1/worker/attempts/{task}/1/objects", old.boot).status_code == 200
        socket.send(wire.encode(wire.Results([wire.Result(task, 1, Outcome.OK, 5)])))
        heard(socket, wire.Settled)
    assert two.send("GET", f"/v1/nodes/{old.name}", token=two.cluster.tokens.admin).json()["key"] is None


def test_a_workers_token_does_not_speak_for_a_node_with_a_key(two: Served, pair: Pair, machine: New) -> None:
    old = machine(name=pair.b.name, token=two.tokens["worker"], boot=pair.b.boot)
    with old.control() as socket:
        socket.send(old.hello())
        code, reason = close_of(socket)
    assert (code, denials(two, "node.connect", old.name)) == (wire.CLOSE_NOT_YOURS, [reason])
    _sent(old, two.cluster.urls[0], LogChunk(pair.task, 1, 0, 1, b"old"))
    assert _output(two, pair.task) == []
    assert _ask(old, "GET", f"/v1/worker/attempts/{pair.task}/1/objects", old.boot).status_code == 404
    ask = {"task": pair.task, "attempt": 1, "action": "claim", "key": "k", "nonce": "n"}
    assert old.post("/v1/worker/once", ask, token=old.token).status_code == 409


def test_a_pools_rule_ends_what_workers_tokens_have_open(two: Served, machine: New) -> None:
    old = machine(pool="strict", token=two.tokens["worker"])
    new = machine(pool="strict").become_node()
    admin = two.cluster.tokens.admin
    with old.registered() as (from_old, _), new.registered() as (from_new, _):
        task = two.submit(pool="strict", require={"machine": old.name}, cap="1h")
        heard(from_old, wire.Start)
        changed = two.send("PATCH", "/v1/pools/strict", {"identified_nodes": True}, token=admin)
        assert (changed.status_code, changed.json()["identified_nodes"]) == (200, True)
        assert close_of(from_old, timeout=PROMISED_SECONDS)[0] == 1008
        answer = old.get("/v1/worker/leader?pool=strict")
        assert (answer.status_code, problem(answer).slug) == (403, "identity-needed")
        _sent(old, two.cluster.urls[0], LogChunk(task, 1, 0, 1, b"old"))
        assert _output(two, task) == []
        from_new.send(wire.encode(wire.Heartbeat(1.0, 0)))
        heard(from_new, wire.Alive)


# ---- the end of an identity -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [0, 1])
def test_a_forgotten_key_ends_all_that_it_opened_on_every_server_node(two: Served, machine: New, asked: int) -> None:
    one = machine().become_node()
    with (
        one.registered() as (control, _),
        one.open("/v1/worker/logs", two.cluster.urls[0]) as first,
        one.open("/v1/worker/logs", two.cluster.urls[1]) as second,
    ):
        answer = httpx.delete(
            f"{two.cluster.urls[asked]}/v1/nodes/{one.name}/key",
            headers={"authorization": f"Bearer {two.cluster.tokens.admin}"},
            trust_env=False,
        )
        assert answer.status_code == 204
        for socket in (control, first, second):
            assert close_of(socket, timeout=PROMISED_SECONDS)[0] == 1008
    for url in two.cluster.urls:
        one.url = url
        eventually(lambda: one.get("/v1/worker/leader").status_code == 401, seconds=PROMISED_SECONDS, what="401")
        assert one.prove().status_code == 401


def test_a_removed_node_has_no_key_any_more(two: Served, machine: New) -> None:
    one = machine().become_node()
    admin = two.cluster.tokens.admin
    with one.registered():
        refused = two.send("DELETE", f"/v1/nodes/{one.name}", token=admin)
        assert (refused.status_code, problem(refused).slug) == (409, "node-up")
        assert one.prove().status_code == 201, "the refusal left it as it was"
    two.ask("update nodes set left_at = now(), seen_at = now() - interval '1 second' where name = $1", one.name)
    assert two.send("DELETE", f"/v1/nodes/{one.name}", token=admin).status_code == 204
    assert one.prove().status_code == 401
    assert machine(name=one.name).join(join_token(two)).status_code == 201
