"""C11: a worker key makes as many nodes as it says, for as long as it says, in its pool; and a signature proves one node."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from rota.api.app import ROUTERS
from rota.api.permissions import OPEN
from rota.node_identity import CHALLENGE_SECONDS, NodeTokens, join_message, proof_message
from tests.api.nodes.machines import Machine, all_at_once, denials, join_token, text_of
from tests.api.served import Served, problem

New = Callable[..., Machine]


def _uses(two: Served, token: str) -> int:
    [(used,)] = two.ask("select used from worker_keys where public_id = $1", token.split("_")[2])
    return int(used)


def _slug(answer: httpx.Response) -> str:
    return problem(answer).slug


def test_eleven_machines_join_at_once_with_a_key_for_ten_and_one_is_refused(two: Served, machine: New) -> None:
    token = join_token(two, uses=10)
    machines = [machine(server=number % 2) for number in range(11)]
    calls = [(one.url, one.join_body(), token) for one in machines]
    answers = asyncio.run(all_at_once(calls))
    assert Counter(answer.status_code for answer in answers) == {201: 10, 403: 1}
    [refused] = [one for one, answer in zip(machines, answers, strict=True) if answer.status_code == 403]
    assert _slug(next(answer for answer in answers if answer.status_code == 403)) == "worker-key-used-up"
    assert _uses(two, token) == 10
    assert refused.prove().status_code == 401, "it is no node"
    assert len(denials(two, "node.join", f"default/{refused.name}")) == 1
    joined = [one for one in machines if one is not refused]
    assert all(one.prove().status_code == 201 for one in joined)


def test_joining_again_with_the_same_key_takes_no_use(two: Served, machine: New) -> None:
    token, one = join_token(two, uses=1), machine()
    assert one.join(token).status_code == 201
    assert one.join(token).status_code == 201
    assert _uses(two, token) == 1


def test_one_machine_that_joins_twice_at_once_takes_one_use(two: Served, machine: New) -> None:
    token, one = join_token(two, uses=2), machine()
    answers = asyncio.run(all_at_once([(two.cluster.urls[server], one.join_body(), token) for server in (0, 1, 0, 1)]))
    assert {answer.status_code for answer in answers} == {201}
    assert _uses(two, token) == 1


def test_an_expired_key_joins_nobody(two: Served, machine: New) -> None:
    token, one = join_token(two, uses=5), machine()
    two.ask("update worker_keys set expires_at = now() where public_id = $1", token.split("_")[2])
    assert _slug(one.join(token)) == "worker-key-expired"
    assert (one.prove().status_code, _uses(two, token)) == (401, 0)


def test_a_revoked_key_joins_nobody_and_its_nodes_stay(two: Served, machine: New) -> None:
    admin = two.cluster.tokens.admin
    made = two.send("POST", "/v1/worker-keys", {"uses": 5}, token=admin).json()
    before, after = machine(), machine(server=1)
    assert before.join(made["token"]).status_code == 201
    assert two.send("DELETE", f"/v1/worker-keys/{made['id']}", token=admin).status_code == 204
    assert _slug(after.join(made["token"])) == "worker-key-revoked"
    assert before.prove().status_code == 201


def test_a_key_is_for_its_pool_only(two: Served, machine: New) -> None:
    token = join_token(two, "gpu")
    assert _slug(machine().join(token)) == "wrong-pool"
    assert machine(pool="gpu").join(token).status_code == 201


def test_a_name_with_another_key_is_taken_and_the_answer_says_what_to_do(two: Served, machine: New) -> None:
    first = machine().become_node()
    token = join_token(two)
    answer = machine(name=first.name).join(token)
    assert (answer.status_code, _slug(answer)) == (409, "node-name-taken")
    assert f"rota node forget-key {first.name}" in answer.json()["detail"]
    assert _uses(two, token) == 0
    assert machine(name=first.name, pool="gpu").join(join_token(two, "gpu")).status_code == 201, "names are of a pool"


def test_a_key_is_of_one_node(two: Served, machine: New) -> None:
    first = machine().become_node()
    answer = machine(key=first.key).join(join_token(two))
    assert (answer.status_code, _slug(answer)) == (409, "node-key-taken")


def test_a_name_is_free_again_when_its_key_is_forgotten(two: Served, machine: New) -> None:
    first = machine().become_node()
    forgotten = two.send("DELETE", f"/v1/nodes/{first.name}/key", token=two.cluster.tokens.admin)
    assert forgotten.status_code == 204
    assert first.prove().status_code == 401
    assert machine(name=first.name).join(join_token(two)).status_code == 201
    assert first.prove().status_code == 401, "the name has the new key"


def test_the_name_of_a_connected_worker_without_a_key_is_not_taken(two: Served, machine: New) -> None:
    old = machine(token=two.tokens["worker"])
    with old.registered():
        answer = machine(name=old.name).join(join_token(two))
    assert (answer.status_code, _slug(answer)) == (409, "node-connected")


def test_a_join_token_opens_nothing_else(two: Served, machine: New) -> None:
    token = join_token(two)
    opened = []
    for router in ROUTERS:
        for route in router.routes:
            name, methods = route.endpoint.__name__, getattr(route, "methods", None)  # type: ignore[attr-defined]
            if methods is None or name in OPEN | {"get_metrics"}:
                continue
            path = route.path_format.replace("{", "").replace("}", "")  # type: ignore[attr-defined]
            for method in methods:
                if two.send(method, path, b"", token=token).status_code != 401:
                    opened.append((method, path))
    assert opened == []


# ---- signatures -----------------------------------------------------------------------------------------------------


def test_a_signature_by_another_key_does_not_join(two: Served, machine: New) -> None:
    one, other, token = machine(), machine(), join_token(two)
    body = one.join_body(public_key=text_of(other.key.public))
    assert _slug(one.post("/v1/worker/join", body, token=token)) == "wrong-signature"
    assert _uses(two, token) == 0


@pytest.mark.parametrize("field", ["pool", "name", "challenge"])
def test_a_signature_is_for_what_it_says(two: Served, machine: New, field: str) -> None:
    one, token = machine(), join_token(two, uses=2)
    said = {"pool": "gpu", "name": "another", "challenge": one.challenge()[1]}
    assert _slug(one.join(token, **{field: said[field]})) == "wrong-signature"
    assert one.join(token).status_code == 201
    wrong = {"pool": "gpu", "name": "another", "challenge": one.challenge()[1]}
    assert one.prove(**{field: wrong[field]}).status_code == 401
    assert one.prove(boot=one.boot + 1).status_code == 401


def test_a_forged_signature_proves_nothing_and_is_audited(two: Served, machine: New) -> None:
    one = machine().become_node()
    forged = machine(name=one.name)
    assert _slug(forged.prove()) == "unknown-node-key"
    assert len(denials(two, "node.prove", f"default/{one.name}")) == 1


def test_an_unknown_node_and_a_wrong_key_have_one_answer(two: Served, machine: New) -> None:
    one = machine().become_node()
    wrong, unknown = machine(name=one.name).prove(), machine().prove()
    said = [answer.json()["detail"].replace(one.name, "N") for answer in (wrong, unknown)]
    assert wrong.status_code == unknown.status_code == 401
    assert said[0].split("N")[1].split(" of ")[1] == said[1].split(" of ", 1)[1]


def test_a_signature_for_joining_does_not_prove_and_the_other_way_round(two: Served, machine: New) -> None:
    one = machine().become_node()
    cluster, challenge = one.challenge()
    join = join_message(cluster=cluster, challenge=challenge, pool=one.pool, name=one.name, public_key=one.key.public)
    assert one.prove(challenge=challenge, signature=text_of(one.key.sign(join))).status_code == 401
    cluster, challenge = one.challenge()
    proof = proof_message(cluster=cluster, challenge=challenge, pool=one.pool, name=one.name, boot=one.boot)
    answer = one.join(join_token(two), challenge=challenge, signature=text_of(one.key.sign(proof)))
    assert _slug(answer) == "wrong-signature"


def test_a_signature_for_another_cluster_proves_nothing(two: Served, machine: New) -> None:
    one = machine().become_node()
    _, challenge = one.challenge()
    other = proof_message(cluster="another", challenge=challenge, pool=one.pool, name=one.name, boot=one.boot)
    assert one.prove(challenge=challenge, signature=text_of(one.key.sign(other))).status_code == 401


def test_a_proof_is_taken_once_on_any_server_node_and_so_is_none_older(two: Served, machine: New) -> None:
    one = machine().become_node()
    older, newer = one.proof_body(), one.proof_body()
    assert one.post("/v1/worker/token", newer).status_code == 201
    for url in two.cluster.urls:
        one.url = url
        assert _slug(one.post("/v1/worker/token", newer)) == "bad-challenge", "a replay"
        assert _slug(one.post("/v1/worker/token", older)) == "bad-challenge"


def test_challenges_of_others_and_old_ones_are_refused(two: Served, machine: New) -> None:
    one = machine().become_node()
    [(secret, identity)] = two.ask("select secret, identity::text from cluster")
    now_us = int(time.time() * 1e6)
    for tokens, made_us in (
        (NodeTokens("another secret"), now_us - 1_000_000),
        (NodeTokens(secret), now_us - (CHALLENGE_SECONDS + 1) * 1_000_000),
        (NodeTokens(secret), now_us + 3600 * 1_000_000),
    ):
        challenge = tokens.challenge(made_us, bytes(16))
        message = proof_message(cluster=identity, challenge=challenge, pool=one.pool, name=one.name, boot=one.boot)
        answer = one.prove(challenge=challenge, signature=text_of(one.key.sign(message)))
        assert _slug(answer) == "bad-challenge"


@pytest.mark.parametrize(
    "change",
    [
        {"pool": ""}, {"pool": "a\0b"}, {"pool": "x" * 41}, {"name": ""}, {"name": "a b"}, {"name": "x" * 101},
        {"name": "a\0"}, {"public_key": ""}, {"public_key": "ä"}, {"public_key": "A" * 42}, {"public_key": "A" * 4000},
        {"signature": "A"}, {"signature": "=" * 86}, {"name": 7}, {"further": 1},
    ],
)  # fmt: skip
def test_a_body_that_is_wrong_is_refused_with_the_field(two: Served, machine: New, change: dict[str, Any]) -> None:
    one = machine()
    for path, body in (("join", one.join_body()), ("token", one.proof_body())):
        changed = body | change
        if path == "token":
            changed.pop("public_key", None)
            if "public_key" in change:
                continue
        answer = one.post(f"/v1/worker/{path}", changed, token="rota_join_x")
        assert answer.status_code in (400, 413, 422), answer.text
        problem(answer)


@pytest.mark.parametrize("boot", [-1, 2**63, "x", None, 1.5])
def test_a_boot_that_can_not_be_is_refused(machine: New, boot: object) -> None:
    assert machine().prove(boot=boot).status_code in (400, 422)


@pytest.mark.parametrize("challenge", ["", "x", "1.2.3", "9" * 5000, "\0"])
def test_a_challenge_that_is_none_is_refused(machine: New, challenge: str) -> None:
    assert machine().prove(challenge=challenge).status_code in (400, 413, 422)
