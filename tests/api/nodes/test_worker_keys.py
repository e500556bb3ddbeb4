"""Worker keys are made by operators, each for the pools that they look after; nobody reads a join token back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.accounts.people import People
from tests.api.nodes.machines import Machine
from tests.api.served import Served, problem

New = Callable[..., Machine]


def _add(two: Served, token: str, **body: Any) -> Any:
    return two.send("POST", "/v1/worker-keys", body, token=token)


@pytest.fixture
def operator(two: Served) -> str:
    """An operator of the pool gpu."""
    people = People.at(two)
    return people.token_of(people.add_user("operator", pool="gpu"))


def test_an_operator_of_a_pool_makes_sees_and_revokes_keys_of_that_pool_only(two: Served, operator: str) -> None:
    admin = two.cluster.tokens.admin
    refused = _add(two, operator, pool="default")
    assert (refused.status_code, problem(refused).slug) == (403, "wrong-pool")
    other = _add(two, admin, pool="default").json()
    own = _add(two, operator, pool="gpu", uses=3, lasts="30m").json()
    assert (own["pool"], own["uses"], own["used"], own["state"]) == ("gpu", 3, 0, "valid")
    listed = two.send("GET", "/v1/worker-keys", token=operator).json()["keys"]
    assert {key["pool"] for key in listed} == {"gpu"}
    assert own["token"] not in str(listed)
    assert "token" not in listed[0]
    assert two.send("DELETE", f"/v1/worker-keys/{other['id']}", token=operator).status_code == 404
    assert two.send("DELETE", f"/v1/worker-keys/{own['id']}", token=operator).status_code == 204
    again = two.send("DELETE", f"/v1/worker-keys/{own['id']}", token=operator)
    assert (again.status_code, problem(again).slug) == (409, "already-revoked")


def test_the_list_says_how_many_uses_are_left_and_when_one_was_taken(two: Served, machine: New) -> None:
    admin = two.cluster.tokens.admin
    made = _add(two, admin, uses=2).json()
    for left in (1, 0):
        assert machine().join(made["token"]).status_code == 201
        [key] = [
            key for key in two.send("GET", "/v1/worker-keys", token=admin).json()["keys"] if key["id"] == made["id"]
        ]
        assert key["uses"] - key["used"] == left
        assert (key["used_from"], key["created_by"]) == ("127.0.0.1", "admin")
        assert key["used_at"] is not None
    assert key["state"] == "used up"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"pool": "nowhere"}, "/pool"), ({"pool": "a\0"}, ""), ({"uses": 0}, "/uses"), ({"uses": 10_001}, "/uses"),
        ({"uses": 2**70}, ""), ({"lasts": "1s"}, "/lasts"), ({"lasts": "31d"}, "/lasts"), ({"lasts": "x"}, "/lasts"),
        ({"lasts": -5}, "/lasts"), ({"further": 1}, ""),
    ],
)  # fmt: skip
def test_a_wrong_request_names_the_field(two: Served, body: dict[str, Any], field: str) -> None:
    answer = _add(two, two.cluster.tokens.admin, **body)
    assert answer.status_code in (400, 422)
    problem(answer)
    if field:
        assert answer.json()["errors"][0]["pointer"] == field


@pytest.mark.parametrize("number", ["x", "0", "999999999", "99999999999999999999", "-1"])
def test_a_key_that_is_not_there_is_not_found(two: Served, number: str) -> None:
    answer = two.send("DELETE", f"/v1/worker-keys/{number}", token=two.cluster.tokens.admin)
    assert answer.status_code == 404


def test_making_revoking_and_joining_are_in_the_audit_log_without_the_token(two: Served, machine: New) -> None:
    admin = two.cluster.tokens.admin
    made = _add(two, admin, pool="gpu").json()
    one = machine(pool="gpu")
    assert one.join(made["token"]).status_code == 201
    assert two.send("DELETE", f"/v1/worker-keys/{made['id']}", token=admin).status_code == 204
    assert two.send("DELETE", f"/v1/nodes/{one.name}/key", token=admin).status_code == 204
    rows = two.ask(
        """select action, object_id, actor_kind, after::text || coalesce(before::text, '') from audit_log
            where object_id in ($1, $2) and object_kind in ('worker-key', 'node') and outcome = 'done' order by id""",
        str(made["id"]),
        f"gpu/{one.name}",
    )
    assert [row[:3] for row in rows] == [
        ("worker-key.add", str(made["id"]), "service"),
        ("node.join", f"gpu/{one.name}", "node"),
        ("worker-key.revoke", str(made["id"]), "service"),
        ("node.forget-key", f"gpu/{one.name}", "service"),
    ]
    assert made["token"].rsplit("_", 1)[1] not in str(rows)


def test_a_node_shows_its_key_and_with_what_it_joined(two: Served, machine: New) -> None:
    one = machine().become_node()
    with one.registered():
        shown = two.send("GET", f"/v1/nodes/{one.name}", token=two.cluster.tokens.admin).json()["key"]
    [(number,)] = two.ask("select joined_with from node_keys where name = $1", one.name)
    assert shown["joined_with"] == number
    assert shown["fingerprint"].startswith("SHA256:")
    assert shown["joined_at"] is not None


def test_a_key_that_two_pools_have_a_node_for_is_named_by_its_number(two: Served, machine: New) -> None:
    one = machine().become_node()
    other = machine(name=one.name, pool="gpu").become_node()
    admin = two.cluster.tokens.admin
    answer = two.send("DELETE", f"/v1/nodes/{one.name}/key", token=admin)
    assert (answer.status_code, problem(answer).slug) == (409, "ambiguous-name")
    with other.registered() as (_, node):
        assert two.send("DELETE", f"/v1/nodes/{node}/key", token=admin).status_code == 204
    assert (one.prove().status_code, other.prove().status_code) == (201, 401)


def test_an_operator_of_another_pool_forgets_no_key(two: Served, machine: New, operator: str) -> None:
    one = machine().become_node()
    answer = two.send("DELETE", f"/v1/nodes/{one.name}/key", token=operator)
    assert (answer.status_code, problem(answer).slug) == (403, "wrong-pool")
    assert one.prove().status_code == 201
