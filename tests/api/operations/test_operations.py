"""Operations over plain HTTP: one change of all tasks that a filter selects, each task once, and of no other tenant."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.api.served import Said, Served, problem
from tests.api.test_dead import die


def submit_many(served: Served, name: str, number: int = 5, *, token: str = "", **task: Any) -> list[int]:
    body = {"tasks": [{"command": ["true"], "name": name, **task} for _ in range(number)]}
    answer = served.send("POST", "/v1/tasks/batch", body, token=token)
    assert answer.status_code == 201, answer.text
    ids: list[int] = answer.json()["ids"]
    return ids


def start(served: Served, verb: str, changes: dict[str, Any] | None = None, **where: Any) -> dict[str, Any]:
    """The operation once it has ended."""
    body = {"verb": verb, "where": where} | ({} if changes is None else {"changes": changes})
    answer = served.send("POST", "/v1/operations", body)
    assert answer.status_code == 201, answer.text
    return ended(served, answer.json()["id"])


def ended(served: Served, number: int) -> dict[str, Any]:
    answer = served.send("GET", f"/v1/operations/{number}?wait=30")
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    assert document["state"] != "running", document
    return document


def preview(served: Served, verb: str, **where: Any) -> dict[str, Any]:
    answer = served.send("POST", "/v1/operations", {"verb": verb, "where": where, "dry_run": True})
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def states(served: Served, name: str, token: str = "") -> list[str]:
    tasks = served.send("GET", f"/v1/tasks?name={name}&limit=1000", token=token).json()["tasks"]
    return sorted(task["state"] for task in tasks)


def test_a_cancel_by_filter_is_one_request_and_takes_what_the_preview_counted(served: Served) -> None:
    name = uuid4().hex
    ids = submit_many(served, name, 5)
    others = submit_many(served, uuid4().hex, 2)
    strangers = submit_many(served, name, 2, token=served.stranger)
    counted = preview(served, "cancel", name=name)
    assert (counted["count"], counted["or_more"], counted["states"]) == (5, False, {"ready": 5})
    assert counted["ids"] == ids[::-1]
    done = start(served, "cancel", name=name)
    assert (done["state"], done["expected"], done["matched"], done["changed"]) == ("done", 5, 5, 5)
    assert (done["ended"], done["refused"], done["refusals"], done["where"]) == (0, 0, [], {"name": name})
    assert states(served, name) == ["cancelled"] * 5
    assert {served.send("GET", f"/v1/tasks/{task}").json()["state"] for task in others} == {"ready"}
    assert states(served, name, served.stranger) == ["ready"] * len(strangers)
    served.send("POST", "/v1/tasks/cancel", {"ids": strangers}, token=served.stranger)
    assert preview(served, "cancel", name=name)["count"] == 0, "what is cancelled is not cancelled again"


def test_a_hold_a_release_and_an_edit_by_filter_do_what_their_single_requests_do(served: Served) -> None:
    name = uuid4().hex
    ids = submit_many(served, name, 3, tags={"team": name})
    held = start(served, "hold", {"reason": "waits for data"}, tag=f"team:{name}")
    assert (held["changed"], held["changes"]) == (3, {"reason": "waits for data"})
    task = served.send("GET", f"/v1/tasks/{ids[0]}").json()
    assert (task["state"], task["reason"]) == ("paused", "held by member-user: waits for data")
    assert start(served, "hold", name=name)["matched"] == 0, "what is held is not held again"
    assert preview(served, "edit", name=name)["count"] == 3, "counted before the new values are known"
    edited = start(served, "edit", {"lane": "off-peak", "priority": 7, "cap": "2m"}, name=name)
    assert edited["changed"] == 3
    task = served.send("GET", f"/v1/tasks/{ids[1]}").json()
    assert (task["lane"], task["priority"], task["cap_seconds"]) == ("off-peak", 7, 120)
    assert [one["user"] for one in task["edits"]] == ["member-user"]
    assert start(served, "release", name=name)["changed"] == 3
    assert states(served, name) == ["ready"] * 3
    assert start(served, "release", name=name)["matched"] == 0


def test_a_release_by_filter_leaves_alone_what_was_paused_without_a_hold(served: Served) -> None:
    name = uuid4().hex
    held, paused = submit_many(served, name, 2)
    served.send("POST", f"/v1/tasks/{held}/hold", {})
    served.send("POST", f"/v1/tasks/{paused}/pause")
    assert start(served, "release", name=name)["changed"] == 1
    assert served.send("GET", f"/v1/tasks/{paused}").json()["state"] == "paused"


def test_a_retry_by_filter_makes_one_new_run_of_what_failed(served: Served) -> None:
    name = uuid4().hex
    failed = [die(served, name) for _ in range(3)]
    cancelled = submit_many(served, name, 2)
    assert start(served, "cancel", name=name)["changed"] == 2
    assert preview(served, "retry", name=name)["states"] == {"failed": 3}, "nobody wants cancelled work back unasked"
    assert start(served, "retry", name=name)["changed"] == 3
    assert states(served, name).count("ready") == 3
    assert start(served, "retry", name=name)["matched"] == 0, "each is retried once"
    for task in failed:
        again = served.send("GET", f"/v1/tasks/{task}").json()["retried_as"]
        assert served.send("GET", f"/v1/tasks/{again}").json()["retry_of"] == task
        assert served.send("GET", f"/v1/dead/{task}").status_code == 404
    assert start(served, "retry", name=name, state="cancelled,failed")["changed"] == len(cancelled)


def test_dead_letters_are_requeued_and_discarded_by_filter(served: Served) -> None:
    name = uuid4().hex
    memory, slow = die(served, name), die(served, name, "timeout")
    assert preview(served, "requeue", name=name, over="memory")["ids"] == [memory]
    assert start(served, "requeue", name=name, over="memory")["changed"] == 1
    assert start(served, "discard", name=name, reason="TIMEOUT", since="1h")["changed"] == 1
    assert served.send("GET", f"/v1/dead?name={name}").json()["tasks"] == []
    assert served.send("GET", f"/v1/tasks/{slow}").json()["state"] == "failed", "its history stays"


@pytest.mark.parametrize(
    ("where", "count"),
    [({}, 4), ({"state": "delayed"}, 1), ({"status": "waiting"}, 4), ({"status": "done"}, None), ({"user": "member-user"}, 4),
     ({"user": "nobody"}, 0), ({"since": "1h"}, 4), ({"until": "1h"}, 0), ({"tag": "n:1"}, 1), ({"state": "running"}, 0)],
)  # fmt: skip
def test_filters_select_as_those_of_the_list(served: Served, where: dict[str, Any], count: int | None) -> None:
    name = uuid4().hex
    submit_many(served, name, 2)
    submit_many(served, name, 1, tags={"n": "1"})
    submit_many(served, name, 1, delay="1h")
    if count is None:
        refused = served.send("POST", "/v1/operations", {"verb": "cancel", "where": {"name": name, **where}})
        assert problem(refused) == Said(422, "invalid-filter", (("/where/status", "invalid-filter"),))
        return
    assert preview(served, "cancel", name=name, **where)["count"] == count


def test_a_filter_by_graph_takes_the_tasks_of_a_graph_or_an_array(served: Served) -> None:
    array = served.send("POST", "/v1/tasks", {"command": ["true"], "array": "0-9"}).json()["id"]
    assert start(served, "cancel", graph=array)["changed"] == 10
    document = served.send("GET", f"/v1/graphs/{array}").json()
    assert {task["state"] for task in document["tasks"]} == {"cancelled"}


def test_tasks_submitted_after_the_count_are_left_alone(served: Served) -> None:
    name = uuid4().hex
    submit_many(served, name, 2)
    at = preview(served, "cancel", name=name)["at"]
    later = submit_many(served, name, 1)
    body = {"verb": "cancel", "where": {"name": name}, "before": at}
    done = ended(served, served.send("POST", "/v1/operations", body).json()["id"])
    assert done["changed"] == 2
    assert served.send("GET", f"/v1/tasks/{later[0]}").json()["state"] == "ready"


def test_a_request_that_is_repeated_with_its_key_starts_no_second_operation(served: Served) -> None:
    body, key = {"verb": "cancel", "where": {"name": uuid4().hex}}, {"idempotency-key": uuid4().hex}
    first = served.send("POST", "/v1/operations", body, headers=key)
    again = served.send("POST", "/v1/operations", body, headers=key)
    assert (first.status_code, again.status_code, first.json()["id"]) == (201, 200, again.json()["id"])
    other = served.send("POST", "/v1/operations", {**body, "verb": "hold"}, headers=key)
    assert problem(other).slug == "idempotency-key-reused"
    empty = served.send("POST", "/v1/operations", body, headers={"idempotency-key": ""})
    assert problem(empty).slug == "idempotency-key-invalid"


def test_an_operation_is_audited_once_and_listed(served: Served) -> None:
    done = start(served, "cancel", name=uuid4().hex)
    actions = served.ask(
        "select action, actor from audit_log where object_kind = 'operation' and object_id like $1", f"%/{done['id']}"
    )
    assert actions == [("operation.cancel", "member-user")]
    page = served.send("GET", "/v1/operations?limit=1&state=done").json()
    assert page["operations"][0]["id"] == done["id"]
    following = served.send("GET", f"/v1/operations?limit=1&cursor={page['next']}").json()
    assert following["operations"][0]["id"] < done["id"]
    assert served.send("GET", f"/v1/operations/{done['id']}", token=served.stranger).status_code == 404
    assert served.send("GET", "/v1/operations", token=served.stranger).json()["operations"] == []


def test_an_ended_operation_can_not_be_stopped(served: Served) -> None:
    done = start(served, "cancel", name=uuid4().hex)
    answer = served.send("POST", f"/v1/operations/{done['id']}/stop")
    assert problem(answer) == Said(409, "already-terminal")
    assert "it is done" in answer.json()["detail"]
    assert served.send("POST", "/v1/operations/99999999/stop").status_code == 404


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({"verb": "cancel"}, ["/where"]),
        ({"verb": "cancel", "where": {}}, ["/where"]),
        ({"verb": "cancel", "where": {"name": "x"}, "all": True}, ["/where"]),
        ({"verb": "erase", "all": True}, ["/verb"]),
        ({"verb": "erase"}, ["/verb", "/where"]),
        ({"verb": "edit", "all": True}, ["/changes"]),
        ({"verb": "edit", "all": True, "changes": {"lane": "nowhere", "cap": "soon"}}, ["/changes/lane", "/changes/cap"]),
        ({"verb": "edit", "all": True, "changes": {"reason": "x"}}, ["/changes/reason"]),
        ({"verb": "cancel", "all": True, "changes": {"lane": "urgent"}}, ["/changes/lane"]),
        ({"verb": "hold", "all": True, "changes": {"reason": "x\ny"}}, ["/changes/reason"]),
        ({"verb": "hold", "where": {"state": "running"}}, ["/where/state"]),
        ({"verb": "hold", "where": {"state": "asleep"}}, ["/where/state"]),
        ({"verb": "cancel", "where": {"tag": "x", "since": "soon", "graph": -1}}, ["/where/tag", "/where/since", "/where/graph"]),
        ({"verb": "cancel", "where": {"graph": 999999999}}, ["/where/graph"]),
        ({"verb": "cancel", "where": {"schedule": "none", "worker": "no-node"}}, ["/where/schedule", "/where/worker"]),
        ({"verb": "cancel", "where": {"reason": "x"}}, ["/where/reason"]),
        ({"verb": "requeue", "where": {"state": "failed"}}, ["/where/state"]),
        ({"verb": "discard", "where": {"over": "speed", "tag": "x"}}, ["/where/over", "/where/tag"]),
        ({"verb": "cancel", "all": True, "before": "soon"}, ["/before"]),
    ],
)  # fmt: skip
def test_every_fault_of_an_operation_is_named(served: Served, body: dict[str, Any], pointers: list[str]) -> None:
    said = problem(served.send("POST", "/v1/operations", body))
    assert said.status == 422
    assert [pointer for pointer, _ in said.faults] == pointers


def test_a_viewer_may_look_at_operations_and_start_none(served: Served) -> None:
    viewer = served.tokens["viewer"]
    body = {"verb": "cancel", "all": True, "dry_run": True}
    assert served.send("POST", "/v1/operations", body, token=viewer).status_code == 403
    assert served.send("GET", "/v1/operations", token=viewer).status_code == 200


def test_an_edit_refuses_the_tasks_that_do_not_fit_the_new_pool_and_moves_the_others(served: Served) -> None:
    name = uuid4().hex
    fitting = submit_many(served, name, 2)
    large = submit_many(served, name, 1, cpu=64)
    done = start(served, "edit", {"pool": "small"}, name=name)
    assert (done["state"], done["matched"], done["changed"], done["refused"]) == ("done", 3, 2, 1)
    [refusal] = done["refusals"]
    assert (refusal["count"], refusal["ids"]) == (1, large)
    assert "pool small" in refusal["reason"]
    assert {served.send("GET", f"/v1/tasks/{task}").json()["pool"] for task in fitting} == {"small"}
