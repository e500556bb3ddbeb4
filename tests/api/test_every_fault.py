"""A fault of the structure hides no other fault, and makes up none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.served import Said, Served, problem


def pointers(said: Said) -> list[str]:
    return sorted(pointer for pointer, _ in said.faults)


@pytest.mark.parametrize(
    ("task", "faults"),
    [
        ({"comand": ["true"], "cpu": -1, "lane": "x"}, ["/comand", "/cpu", "/lane"]),
        ({"command": ["true"], "foo": 1, "memory": "lots", "tier": "x"}, ["/foo", "/memory", "/tier"]),
        ({"foo": 1, "cpu": -1}, ["", "/cpu", "/foo"]),
        ({"command": ["true", 5], "cap": "never"}, ["/cap", "/command/1"]),
        ({"function": 5, "args": [1], "kwargs": {}, "attempts": 0}, ["/attempts", "/function"]),
        ({"command": ["true"], "attempts": "3", "retry_on": ["exit=1"], "lane": "x"}, ["/attempts", "/lane"]),
        ({"upload": 7, "args": ["x"], "cpu": 0}, ["/cpu", "/upload"]),
        ({"command": ["true"], "arry": "0-9", "array": "9-0"}, ["/array", "/arry"]),
        ({"command": ["true"], "nme": "\x1b", "cpu": 0}, ["/cpu", "/nme"]),
    ],
)
@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/tasks/preview"])
def test_an_unknown_field_or_a_wrong_type_hides_no_other_fault_of_a_task(
    served: Served, path: str, task: dict[str, Any], faults: list[str]
) -> None:
    before = served.stored()
    assert pointers(problem(served.send("POST", path, task))) == faults
    assert served.stored() == before


def test_the_nearest_field_is_suggested_beside_the_other_faults(served: Served) -> None:
    document = served.send("POST", "/v1/tasks", {"comand": ["true"], "cpu": -1}).json()
    assert document["errors"][0]["detail"] == "there is no field 'comand'; did you mean 'command'?"


def test_all_faults_of_a_batch_and_of_a_graph_come_at_once(served: Served) -> None:
    tasks = [{"command": ["true"], "nam": "a", "cpu": -1}, {"command": ["true"], "name": "b", "lane": "x"}, 5]
    batch = problem(served.send("POST", "/v1/tasks/batch", {"tasks": tasks}))
    assert pointers(batch) == ["/tasks/0/cpu", "/tasks/0/nam", "/tasks/1/lane", "/tasks/2"]
    graph = problem(served.send("POST", "/v1/graphs", {"tasks": tasks, "nme": "g"}))
    assert pointers(graph) == ["/name", "/nme", *pointers(batch)]
    linked = [{"command": ["true"], "ref": "a"}, {"command": ["true"], "reff": "b", "after": ["c"]}]
    assert pointers(problem(served.send("POST", "/v1/graphs", {"name": "g", "tasks": linked}))) == [
        "/tasks/1/after/0",
        "/tasks/1/reff",
    ]


@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/tasks/preview"])
def test_a_start_time_that_has_passed_is_refused_as_that_of_a_schedule(served: Served, path: str) -> None:
    refused = served.send("POST", path, {"command": ["true"], "unplaceable": "wait", "at": "2020-01-01T00:00:00Z"})
    assert problem(refused) == Said(422, "time-passed", (("/at", "time-passed"),))
    detail = refused.json()["detail"]
    assert detail.startswith("/at: '2020-01-01T00:00:00Z' has passed: it is 20")
    assert detail.endswith("now; leave it out to start now")
    together = problem(served.send("POST", path, {"command": ["true"], "at": "2020-01-01T00:00:00Z", "lane": "x"}))
    assert pointers(together) == ["/at", "/lane"]


def test_a_time_that_passed_a_moment_ago_is_now_for_tasks_and_schedules(served: Served) -> None:
    just_now = (datetime.now(UTC) - timedelta(seconds=5)).isoformat()
    task = {"command": ["true"], "unplaceable": "wait"}
    made = served.send("POST", "/v1/tasks", {**task, "at": just_now})
    assert (made.status_code, made.json()["state"]) == (201, "ready")
    once = served.send("POST", "/v1/schedules", {"name": "just-now", "task": task, "at": just_now})
    assert once.status_code == 201, once.text
    assert datetime.fromisoformat(once.json()["next_at"]) == datetime.fromisoformat(just_now)


def test_a_repeated_request_gets_its_old_answer_when_its_time_has_passed(served: Served) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    task = {"command": ["true"], "unplaceable": "wait", "at": soon, "name": "repeated-later"}
    key = {"idempotency-key": "passed-1"}
    first = served.send("POST", "/v1/tasks", task, headers=key).json()["id"]
    stored = "select id from tasks where name = 'repeated-later'"
    past = {**task, "at": "2020-01-01T00:00:00Z"}
    assert problem(served.send("POST", "/v1/tasks", past, headers=key)).slug == "idempotency-key-reused"
    assert served.send("POST", "/v1/tasks", task, headers=key).json()["id"] == first
    assert served.ask(stored) == [(first,)]


def test_a_start_time_is_not_moved_into_the_past(served: Served) -> None:
    task = served.submit(unplaceable="wait", delay="1h")
    refused = served.send("PATCH", f"/v1/tasks/{task}", {"at": "2020-01-01T00:00:00Z", "version": 0})
    assert problem(refused) == Said(422, "time-passed", (("/at", "time-passed"),))
