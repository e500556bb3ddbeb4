"""Graphs over HTTP: all or nothing, every fault at once, seen as a whole, cancelled and run again as a whole."""

from __future__ import annotations

from typing import Any

import httpx

from tests.api.served import Served

ETL = [
    {"ref": "extract", "command": ["true"]},
    {"ref": "clean", "command": ["true"], "after": ["extract"]},
    {"ref": "load", "command": ["true"], "after": ["clean", "extract"]},
    {"ref": "alarm", "command": ["true"], "after_failed": ["load"]},
    {"ref": "tidy", "command": ["true"], "after_end": ["load", "alarm"]},
]


def _submit(served: Served, tasks: list[dict[str, Any]] = ETL, **headers: str) -> httpx.Response:
    return served.send("POST", "/v1/graphs", {"name": "etl", "tasks": tasks}, headers=headers)


def test_a_graph_is_stored_whole_and_seen_whole(served: Served) -> None:
    made = _submit(served).json()
    assert list(made["tasks"]) == ["extract", "clean", "load", "alarm", "tidy"]
    ids = made["tasks"]
    found = served.send("GET", f"/v1/graphs/{made['id']}").json()
    assert (found["name"], found["status"], found["size"]) == ("etl", "waiting", 5)
    assert found["states"] == {"blocked": 4, "ready": 1}
    by_name = {task["name"]: task for task in found["tasks"]}
    assert by_name["load"]["after"] == [ids["extract"], ids["clean"]]
    assert by_name["alarm"]["after_failed"] == [ids["load"]]
    assert by_name["tidy"]["after_end"] == [ids["load"], ids["alarm"]]
    assert found["critical_path"] == []
    task = served.send("GET", f"/v1/tasks/{ids['clean']}").json()
    assert (task["name"], task["graph"]) == ("clean", made["id"])


def test_what_comes_before_and_behind_a_task_is_found_by_name_or_id(served: Served) -> None:
    made = _submit(served).json()

    def names(**query: object) -> set[str]:
        answer = served.send("GET", f"/v1/graphs/{made['id']}", params=query)
        return {task["name"] for task in answer.json()["tasks"]}

    assert names(ancestors_of="load") == {"extract", "clean"}
    assert names(descendants_of=made["tasks"]["clean"]) == {"load", "alarm", "tidy"}
    refused = served.send("GET", f"/v1/graphs/{made['id']}", params={"ancestors_of": "nobody"})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/ancestors_of")


def test_every_fault_of_a_graph_is_told_at_once_and_nothing_is_stored(served: Served) -> None:
    before = len(served.send("GET", "/v1/graphs", params={"limit": 1000}).json()["graphs"])
    answer = served.send(
        "POST",
        "/v1/graphs",
        {
            "name": "",
            "tasks": [
                {"ref": "a", "command": ["true"], "after": ["c"]},
                {"ref": "b", "command": ["true"], "after": ["a", "nobody"], "cpu": -1},
                {"ref": "c", "command": ["true"], "after": ["b"], "idempotency_key": "k"},
                {"command": ["true"]},
            ],
        },
    )
    faults = {(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]}
    assert answer.status_code == 422
    assert faults == {
        ("/name", "invalid-name"),
        ("/tasks/1/after", "dag-cycle"),
        ("/tasks/1/after/1", "unknown-dependency"),
        ("/tasks/1/cpu", "out-of-range"),
        ("/tasks/2/idempotency_key", "unknown-field"),
        ("/tasks/3/ref", "missing-field"),
    }
    assert any("b → c → a → b" in fault["detail"] for fault in answer.json()["errors"])
    assert len(served.send("GET", "/v1/graphs", params={"limit": 1000}).json()["graphs"]) == before


def test_the_same_key_gives_the_same_graph(served: Served) -> None:
    first = _submit(served, **{"Idempotency-Key": "graph-once"})
    again = _submit(served, **{"Idempotency-Key": "graph-once"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert (again.json()["id"], again.json()["tasks"]) == (first.json()["id"], first.json()["tasks"])
    other = _submit(served, ETL[:1], **{"Idempotency-Key": "graph-once"})
    assert (other.status_code, other.json()["errors"][0]["code"]) == (422, "idempotency-key-reused")


def test_a_graph_is_cancelled_retried_and_rerun_as_a_whole(served: Served) -> None:
    made = _submit(served).json()
    path = f"/v1/graphs/{made['id']}"
    assert served.send("POST", f"{path}/retry").json()["type"].endswith("nothing-to-retry")
    cancelled = served.send("POST", f"{path}/cancel").json()
    assert cancelled["cancelled"] == sorted(made["tasks"].values())
    assert served.send("GET", path).json()["status"] == "cancelled"
    assert served.send("POST", f"{path}/cancel").status_code == 409
    again = served.send("POST", f"{path}/retry")
    assert (again.status_code, list(again.json()["tasks"])) == (201, list(made["tasks"]))
    found = served.send("GET", path).json()
    assert (found["status"], found["size"], found["states"]) == ("waiting", 5, {"blocked": 4, "ready": 1})
    new = again.json()["tasks"]
    tasks = {task["name"]: task for task in found["tasks"]}
    assert {task["id"] for task in found["tasks"]} == set(new.values())
    assert tasks["alarm"]["after_failed"] == [new["load"]]
    assert tasks["alarm"]["retry_of"] == made["tasks"]["alarm"]
    copied = served.send("POST", f"{path}/rerun").json()
    assert copied["rerun_of"] == made["id"]
    assert set(copied["tasks"].values()).isdisjoint(new.values())
    assert served.send("GET", f"/v1/graphs/{copied['id']}").json()["states"] == {"blocked": 4, "ready": 1}


def test_graphs_are_listed_newest_first_with_pages(served: Served) -> None:
    ids = [_submit(served).json()["id"] for _ in range(3)]
    page = served.send("GET", "/v1/graphs", params={"name": "etl", "limit": 2}).json()
    assert [graph["id"] for graph in page["graphs"]] == ids[:0:-1]
    assert page["graphs"][0]["counts"]["waiting"] == 5
    rest = served.send("GET", "/v1/graphs", params={"name": "etl", "limit": 1, "cursor": page["next"]}).json()
    assert [graph["id"] for graph in rest["graphs"]] == ids[:1]


def test_a_graph_of_another_tenant_is_as_unknown_as_none(served: Served) -> None:
    made = _submit(served).json()
    for path in (f"/v1/graphs/{made['id']}", "/v1/graphs/999999", "/v1/graphs/x"):
        answer = served.send("GET", path, key=served.stranger)
        assert (answer.status_code, answer.json()["detail"]) == (404, "there is no such graph")
    assert served.send("POST", f"/v1/graphs/{made['id']}/cancel", key=served.stranger).status_code == 404


def test_the_largest_graph_is_stored_in_one_go(served: Served) -> None:
    tasks: list[dict[str, Any]] = [{"ref": "root", "command": ["true"]}]
    tasks += [{"ref": f"leaf-{number}", "command": ["true"], "after": ["root"]} for number in range(9_999)]
    made = _submit(served, tasks)
    assert made.status_code == 201
    found = served.send("GET", f"/v1/graphs/{made.json()['id']}").json()
    assert found["states"] == {"blocked": 9_999, "ready": 1}
    assert served.send("POST", f"/v1/graphs/{made.json()['id']}/cancel").status_code == 200
    refused = _submit(served, [*tasks, {"ref": "more", "command": ["true"]}])
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/tasks")
