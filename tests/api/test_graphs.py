"""Graphs over HTTP: all or nothing, every fault at once, seen as a whole, cancelled and run again as a whole."""

from __future__ import annotations

from typing import Any

import httpx

from tests.api.served import Said, Served, problem

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
    edges = {
        name: {
            rule: served.send("GET", f"/v1/tasks/{ids[name]}").json()[rule]
            for rule in ("after", "after_end", "after_failed")
        }
        for name in ("clean", "alarm", "tidy")
    }
    assert edges == {
        "clean": {"after": [ids["extract"]], "after_end": [], "after_failed": []},
        "alarm": {"after": [], "after_end": [], "after_failed": [ids["load"]]},
        "tidy": {"after": [], "after_end": [ids["load"], ids["alarm"]], "after_failed": []},
    }


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


def test_a_graph_is_held_and_released_as_a_whole(served: Served) -> None:
    made = _submit(served).json()
    path, ids = f"/v1/graphs/{made['id']}", sorted(made["tasks"].values())
    held = served.send("POST", f"{path}/hold", {"reason": "waits for the data"})
    assert (held.status_code, held.json()) == (200, {"id": made["id"], "held": ids, "running": []})
    found = served.send("GET", path).json()
    assert (found["status"], found["states"]) == ("waiting", {"paused": 5})
    assert {task["reason"] for task in found["tasks"]} == {"held by member-user: waits for the data"}
    assert served.send("POST", f"{path}/release").json() == {"id": made["id"], "released": ids}
    assert served.send("POST", f"{path}/release").json() == {"id": made["id"], "released": []}
    assert served.send("GET", path).json()["states"] == {"blocked": 4, "ready": 1}
    assert served.send("POST", f"{path}/hold", {"reason": "x" * 201}).status_code == 422
    assert served.send("POST", f"{path}/hold", token=served.stranger).status_code == 404
    served.send("POST", f"{path}/cancel")
    for verb in ("hold", "release"):
        assert problem(served.send("POST", f"{path}/{verb}")) == Said(409, "already-terminal")


def test_graphs_are_listed_newest_first_with_pages(served: Served) -> None:
    ids = [_submit(served).json()["id"] for _ in range(3)]
    page = served.send("GET", "/v1/graphs", params={"name": "etl", "limit": 2}).json()
    assert [graph["id"] for graph in page["graphs"]] == ids[:0:-1]
    assert page["graphs"][0]["counts"]["waiting"] == 5
    rest = served.send("GET", "/v1/graphs", params={"name": "etl", "limit": 1, "cursor": page["next"]}).json()
    assert [graph["id"] for graph in rest["graphs"]] == ids[:1]


def test_graphs_are_found_by_the_schedule_that_made_them_by_user_and_by_time(served: Served) -> None:
    task = {"ref": "a", "command": ["true"], "unplaceable": "wait"}
    made = {"name": "lister", "tasks": [task], "graph": "listed", "daily": "02:30"}
    assert served.send("POST", "/v1/schedules", made).status_code == 201
    runs = [served.send("POST", "/v1/schedules/lister/run").json()["graph"] for _ in range(3)]
    other = _submit(served).json()["id"]

    def found(**query: object) -> list[int]:
        answer = served.send("GET", "/v1/graphs", params={"limit": 1000, **query}).json()
        return [graph["id"] for graph in answer["graphs"]]

    assert found(schedule="lister") == runs[::-1]
    assert found(schedule="lister", name="etl") == found(schedule="nobody's") == found(user="nobody") == []
    assert found(user="member-user", since="1h")[:2] == [other, runs[-1]]
    assert found(until="1h") == []
    page = served.send("GET", "/v1/graphs", params={"schedule": "lister", "limit": 2}).json()
    assert [graph["schedule"] for graph in page["graphs"]] == ["lister", "lister"]
    assert found(schedule="lister", cursor=page["next"]) == runs[:1]
    refused = served.send("GET", "/v1/graphs", params={"since": "lately"})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/since")


def test_a_graph_of_another_tenant_is_as_unknown_as_none(served: Served) -> None:
    made = _submit(served).json()
    for path in (f"/v1/graphs/{made['id']}", "/v1/graphs/999999", "/v1/graphs/x"):
        answer = served.send("GET", path, token=served.stranger)
        assert (answer.status_code, answer.json()["detail"]) == (404, "there is no such graph")
    assert served.send("POST", f"/v1/graphs/{made['id']}/cancel", token=served.stranger).status_code == 404


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


# ---- arrays ---------------------------------------------------------------------------------------------------------


def test_an_array_is_one_request_one_line_and_one_thing_to_cancel(served: Served) -> None:
    made = served.send(
        "POST", "/v1/tasks", {"command": ["work.sh"], "array": "0-99%7"}, headers={"Idempotency-Key": "a"}
    )
    assert (made.status_code, made.json()["array"]) == (201, 100)
    number = made.json()["id"]
    again = served.send(
        "POST", "/v1/tasks", {"command": ["work.sh"], "array": "0-99%7"}, headers={"Idempotency-Key": "a"}
    )
    assert (again.status_code, again.json()["id"]) == (200, number)
    found = served.send("GET", f"/v1/graphs/{number}").json()
    assert (found["name"], found["array"], found["states"]) == ("work.sh", True, {"ready": 100})
    assert [task["name"] for task in found["tasks"][:2]] == ["work.sh[0]", "work.sh[1]"]
    one = served.send("GET", f"/v1/tasks/{found['tasks'][42]['id']}").json()
    assert (one["index"], one["graph"], one["concurrency_limit"]) == (42, number, 7)
    later = served.submit()
    page = served.send("GET", "/v1/tasks", params={"fold": "arrays", "limit": 2}).json()["tasks"]
    assert [task["id"] for task in page] == [later, number]
    assert page[1]["array"] == {
        "size": 100, "counts": {"waiting": 100, "in progress": 0, "done": 0, "failed": 0, "cancelled": 0},
    }  # fmt: skip
    flat = served.send("GET", "/v1/tasks", params={"limit": 3}).json()["tasks"]
    assert flat[1]["id"] == found["tasks"][99]["id"]
    assert len(served.send("POST", f"/v1/graphs/{number}/cancel").json()["cancelled"]) == 100
    assert (
        served.send("GET", "/v1/tasks", params={"fold": "arrays", "limit": 2}).json()["tasks"][1]["status"]
        == "cancelled"
    )


def test_a_folded_list_shows_the_arrays_that_were_asked_for_and_no_others(served: Served) -> None:
    loose = served.send("POST", "/v1/tasks", {"command": ["loose.sh"], "array": "0-1"}).json()["id"]
    array = {"command": ["folded.sh"], "array": "0-2", "unplaceable": "wait"}
    served.send("POST", "/v1/schedules", {"name": "folder", "task": array, "daily": "02:30"})
    run = served.send("POST", "/v1/schedules/folder/run").json()

    def found(**query: object) -> list[int]:
        answer = served.send("GET", "/v1/tasks", params={"fold": "arrays", "limit": 1000, **query}).json()
        return [task["id"] for task in answer["tasks"]]

    assert found(schedule="folder") == [run["graph"]]
    assert found(schedule="folder", state="ready") == run["tasks"][::-1]
    assert found(name="loose.sh") == [loose]
    assert loose in found(user="member-user")
    assert found(user="nobody") == found(until="1h") == []
    assert found(worker="nobody") == []


def test_an_array_as_a_node_stands_for_all_its_tasks(served: Served) -> None:
    made = _submit(
        served,
        [
            {"ref": "split", "command": ["true"]},
            {"ref": "part", "command": ["true"], "array": "1-3%2", "after": ["split"]},
            {"ref": "join", "command": ["true"], "after": ["part"]},
        ],
    ).json()
    ids = made["tasks"]
    assert list(ids) == ["split", "part[1]", "part[2]", "part[3]", "join"]
    join = served.send("GET", f"/v1/tasks/{ids['join']}").json()
    assert join["after"] == [ids["part[1]"], ids["part[2]"], ids["part[3]"]]
    parts = [served.send("GET", f"/v1/tasks/{ids[f'part[{index}]']}").json() for index in (1, 3)]
    assert len({part["concurrency_key"] for part in parts}) == 1
    for query, names in ({"descendants_of": "part"}, ["join"]), ({"ancestors_of": "part"}, ["split"]):
        found = served.send("GET", f"/v1/graphs/{made['id']}", params=query).json()
        assert [task["name"] for task in found["tasks"]] == names


def test_what_is_wrong_with_an_array_is_told_once_and_where(served: Served) -> None:
    def faults(body: dict[str, Any], path: str = "/v1/tasks") -> list[tuple[str, str]]:
        return [(one["pointer"], one["code"]) for one in served.send("POST", path, body).json()["errors"]]

    assert faults({"command": ["x"], "array": "9-0"}) == [("/array", "out-of-range")]
    assert faults({"command": ["x"], "array": "0-9", "cpu": -1}) == [("/cpu", "out-of-range")]
    assert faults({"command": ["x"], "array": "0-1", "items": [1, 2]}) == [("/items", "invalid-command")]
    assert faults({"function": "a:b", "array": "0-2", "items": [1]}) == [("/items", "out-of-range")]
    assert faults({"command": ["x"], "array": "0-9%2", "concurrency_key": "k"}) == [("/array", "out-of-range")]
    batch = {"tasks": [{"command": ["x"], "array": "0-1"}]}
    assert faults(batch, "/v1/tasks/batch") == [("/tasks/0/array", "invalid-command")]


def test_an_array_can_be_previewed_alone_and_in_a_graph(served: Served) -> None:
    alone = served.send("POST", "/v1/tasks/preview", {"command": ["x"], "array": "0-9"}).json()
    assert (alone["accepted"], alone["tasks"]) == (True, 10)
    tasks = [{"ref": "a", "command": ["x"], "array": "0-4"}, {"ref": "b", "command": ["x"], "after": ["a"]}]
    inside = served.send("POST", "/v1/tasks/preview", {"tasks": tasks}).json()
    assert (inside["accepted"], inside["tasks"]) == (True, 6)
