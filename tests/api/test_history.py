"""The history of a task over HTTP: the attempt that runs, the lane that each ran in, and dependencies both ways;
and one request that waits for many tasks.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rota import Client
from rota.api.routes import attempts as attempt_routes
from rota.store import dependents
from tests.api.served import Said, Served, problem


def run(served: Served, task: int, *, lane: int) -> None:
    """As a start writes it; there is no worker here."""
    served.ask(
        """update queue set state = 4, attempt = attempt + 1, version = version + 1, node = 1, boot = 1, epoch = 1, grace_ms = 600000,
            started_at = now() - interval '1 minute', wake_at = null, ran_lane = $2 where id = $1 returning 1""",
        task, lane,
    )  # fmt: skip


def end(served: Served, task: int, result: str = "1") -> None:
    """As a settlement writes it."""
    served.ask("delete from queue where id = $1 returning 1", task)
    served.ask(
        """insert into attempts (task, number, tenant, state, outcome, node, started_at, run_us, lane, result)
        values ($1, 1, $2, 10, 1, 1, now() - interval '1 minute', 59000000, 0, $3) returning 1""",
        task, served.tenant, result,
    )  # fmt: skip


def attempts(served: Served, task: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.send("GET", f"/v1/tasks/{task}/attempts").json()["attempts"]
    return found


def test_the_attempt_that_runs_is_among_the_attempts(served: Served) -> None:
    task = served.submit()
    assert attempts(served, task) == []
    run(served, task, lane=1)
    [one] = attempts(served, task)
    assert (one["number"], one["node"], one["lane"]) == (1, "n", "normal")
    assert one["started_at"] is not None
    assert [one[name] for name in ("outcome", "state", "ended_at", "run_seconds", "cpu_seconds")] == [None] * 5
    assert served.send("GET", f"/v1/tasks/{task}/attempts", token=served.stranger).status_code == 404


def test_the_lane_a_task_ran_in_is_shown_beside_the_original_one_while_it_runs_and_after_its_end(
    served: Served,
) -> None:
    task = served.submit(tolerance="10m")

    def lanes() -> tuple[str, str]:
        document = served.send("GET", f"/v1/tasks/{task}").json()
        [listed] = served.send("GET", f"/v1/tasks?name={document['name']}&limit=1").json()["tasks"]
        assert listed["lane"] == document["lane"]
        return document["lane"], document["submitted_lane"]

    assert lanes() == ("normal", "normal")
    served.ask("update queue set wake_at = now() where id = $1 returning 1", task)
    assert lanes() == ("urgent", "normal"), "its start-by time is near"
    run(served, task, lane=0)
    assert lanes() == ("urgent", "normal")
    end(served, task)
    assert lanes() == ("urgent", "normal")
    assert [one["lane"] for one in attempts(served, task)] == ["urgent"]


def test_an_edited_lane_is_that_of_a_task_that_never_ran(served: Served) -> None:
    task = served.submit()
    assert served.send("PATCH", f"/v1/tasks/{task}", {"lane": "off-peak", "version": 0}).status_code == 200
    served.send("POST", f"/v1/tasks/{task}/cancel")
    document = served.send("GET", f"/v1/tasks/{task}").json()
    assert (document["lane"], document["submitted_lane"]) == ("off-peak", "normal")


# ---- dependencies: of single tasks, across graphs, transitively, also after their ends (R20) -------------------------


def listed(served: Served, query: str, **more: Any) -> list[int]:
    answer = served.send("GET", f"/v1/tasks?{query}", **more)
    assert answer.status_code == 200, answer.text
    return [one["id"] for one in answer.json()["tasks"]]


def shown(served: Served, task: int) -> tuple[list[int], bool]:
    document = served.send("GET", f"/v1/tasks/{task}").json()
    return document["dependents"], document["more_dependents"]


def test_a_task_names_its_dependents_whatever_their_rule_and_also_when_they_have_ended(served: Served) -> None:
    first = served.submit()
    after = served.submit(after=[first])
    end = served.submit(after_end=[first])
    failed = served.submit(after_failed=[first])
    assert shown(served, first) == ([after, end, failed], False)
    assert shown(served, after) == ([], False)
    served.send("POST", f"/v1/tasks/{first}/cancel")
    assert shown(served, first) == ([after, end, failed], False)
    again = served.send("POST", f"/v1/tasks/{first}/retry").json()["id"]
    assert shown(served, again) == ([], False)


def test_lists_go_both_ways_transitively_and_across_graphs(served: Served) -> None:
    extract = served.submit()
    graph = served.send(
        "POST",
        "/v1/graphs",
        {
            "name": "etl",
            "tasks": [
                {"ref": "clean", "command": ["true"], "after": [extract]},
                {"ref": "load", "command": ["true"], "after": ["clean"]},
                {"ref": "apart", "command": ["true"]},
            ],
        },
    ).json()
    clean, load, apart = (graph["tasks"][name] for name in ("clean", "load", "apart"))
    report = served.submit(after=[load], name="report")
    assert listed(served, f"descendants_of={extract}") == [report, load, clean]
    assert listed(served, f"ancestors_of={report}") == [load, clean, extract]
    assert listed(served, f"descendants_of={extract}&ancestors_of={report}") == [load, clean], "between the two"
    assert listed(served, f"descendants_of={extract}&graph={graph['id']}") == [load, clean]
    assert listed(served, f"descendants_of={extract}&name=report&state=blocked") == [report]
    assert listed(served, f"descendants_of={graph['id']}") == [report], "those outside of the graph"
    assert listed(served, f"ancestors_of={apart}") == []
    assert listed(served, f"descendants_of={extract}&limit=1&fold=arrays") == [report]
    page = served.send("GET", f"/v1/tasks?descendants_of={extract}&limit=2").json()
    assert listed(served, f"descendants_of={extract}&cursor={page['next']}") == [clean]
    assert "more_related" not in page
    assert shown(served, extract) == ([clean], False)


def test_a_task_of_a_graph_goes_by_its_name_there(served: Served) -> None:
    tasks = [
        {"ref": "extract", "command": ["true"], "name": "own"},
        {"ref": "part", "command": ["true"], "array": "0-1", "after": ["extract"]},
        {"ref": "a/b", "command": ["true"], "after": ["part"]},
    ]
    graph = served.send("POST", "/v1/graphs", {"name": "etl", "tasks": tasks}).json()
    number, made = graph["id"], graph["tasks"]
    below = [made["a/b"], made["part[1]"], made["part[0]"]]
    assert listed(served, f"descendants_of={number}/extract") == below
    assert listed(served, f"graph={number}&descendants_of=extract") == below
    assert listed(served, f"graph={number}&descendants_of=part") == below[:1], "an array's name means all of it"
    assert listed(served, f"graph={number}&ancestors_of=a/b") == [*below[1:], made["extract"]]
    assert listed(served, f"ancestors_of={number}/a/b") == [*below[1:], made["extract"]]
    shown = served.send("GET", f"/v1/tasks?graph={number}").json()["tasks"]
    assert [(task["name"], task["name_in_graph"]) for task in shown][-1] == ("own", "extract")
    assert served.send("GET", f"/v1/tasks/{made['extract']}").json()["name_in_graph"] == "extract"
    for query, detail in (
        ("descendants_of=extract", "'extract' is no task's id; a task of a graph is named 12/extract"),
        (f"graph={number}&descendants_of=nobody", f"graph {number} has no task 'nobody'"),
        (f"ancestors_of={number}/nobody", f"graph {number} has no task 'nobody'"),
    ):
        refused = served.send("GET", f"/v1/tasks?{query}")
        assert refused.status_code == 422
        assert detail in refused.json()["detail"]
    stranger = served.send("GET", f"/v1/tasks?descendants_of={number}/extract", token=served.stranger)
    assert stranger.status_code == 422


def test_a_retry_depends_on_the_same_tasks(served: Served) -> None:
    first = served.submit()
    second = served.submit(after=[first])
    served.send("POST", f"/v1/tasks/{second}/cancel")
    again = served.send("POST", f"/v1/tasks/{second}/retry").json()["id"]
    assert shown(served, first) == ([second, again], False)
    assert listed(served, f"ancestors_of={again}") == [first]


def test_other_tenants_tasks_are_not_found(served: Served) -> None:
    first = served.submit()
    served.submit(after=[first])
    for name in ("ancestors_of", "descendants_of"):
        answer = served.send("GET", f"/v1/tasks?{name}={first}", token=served.stranger)
        assert answer.status_code == 422
        [fault] = answer.json()["errors"]
        assert (fault["pointer"], fault["detail"]) == (f"/{name}", f"there is no task, array or graph {first}")


@pytest.mark.parametrize("value", ["x", "0", "-1", "9" * 30, ""])
def test_a_bad_id_is_refused(served: Served, value: str) -> None:
    answer = served.send("GET", f"/v1/tasks?descendants_of={value}")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/descendants_of")


def test_a_document_shows_a_bounded_number_of_dependents(served: Served) -> None:
    first = served.submit()
    body = {"tasks": [{"command": ["true"], "after": [first]} for _ in range(dependents.MOST_SHOWN + 1)]}
    made = served.send("POST", "/v1/tasks/batch", body).json()["ids"]
    found, more = shown(served, first)
    assert (found, more) == (made[: dependents.MOST_SHOWN], True)


def wait(served: Served, ids: list[int], **more: Any) -> Any:
    return served.send("POST", "/v1/tasks/wait", {"ids": ids, "timeout": 0, **more}).json()


def numbers(answer: Any) -> list[int]:
    return [one["id"] for one in answer["ended"]]


def test_neighbours_that_have_ended_are_reported_and_not_waited_for(served: Served) -> None:
    first, second, third = served.submit(), served.submit(), served.submit()
    end(served, second)
    answer = wait(served, [first], also=[second, third])
    assert numbers(answer) == [second]
    assert (answer["pending"], answer["more"]) == (1, False)


def test_with_any_one_end_is_enough(served: Served) -> None:
    first, second = served.submit(), served.submit()
    end(served, second)
    answer = wait(served, [first, second], any=True, timeout=20)
    assert (numbers(answer), answer["pending"]) == ([second], 1)


def test_with_any_the_end_of_one_wakes_the_client(served: Served) -> None:
    first, second = served.submit(), served.submit()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(wait, served, [first, second], any=True, timeout=25)
        served.send("POST", f"/v1/tasks/{first}/cancel")
        assert numbers(waiting.result()) == [first]


def test_neighbours_of_another_tenant_or_of_nobody_are_left_out(served: Served) -> None:
    mine, foreign = served.submit(), served.submit()
    end(served, mine)
    end(served, foreign)
    stranger = served.send("POST", "/v1/tasks/wait", {"ids": [foreign], "timeout": 0}, token=served.stranger)
    assert problem(stranger) == Said(404, "not-found")
    other = served.add_token(served.add_tenant()[0])
    own = served.submit(other)
    body = {"ids": [own], "also": [foreign, 2**62, -1, 2**63], "timeout": 0}
    assert served.send("POST", "/v1/tasks/wait", body, token=other).json()["ended"] == []


def test_documents_are_those_that_a_read_of_each_task_gives(served: Served) -> None:
    tasks = [served.submit(), served.submit()]
    for task in tasks:
        end(served, task)
    answer = wait(served, tasks, documents=True)
    assert (answer["ended"], answer["pending"]) == ([], 0)
    read = [served.send("GET", f"/v1/tasks/{task}").json() for task in tasks]
    assert [one.pop("history") for one in read] == [[], []], "only a read of one task looks for it"
    assert answer["documents"] == read


def test_an_answer_is_bounded_and_says_that_there_is_more(served: Served) -> None:
    tasks = [served.submit() for _ in range(60)]
    half = '"' + "x" * (attempt_routes.MOST_ANSWER_BYTES // 40) + '"'
    for task in tasks:
        end(served, task, half)
    seen: list[int] = []
    while left := [task for task in tasks if task not in seen]:
        answer = wait(served, left)
        found = numbers(answer)
        assert found == left[: len(found)] != []
        assert answer["more"] is (len(found) < len(left))
        assert answer["pending"] == len(left) - len(found)
        seen += found
    assert seen == tasks
    with Client(served.url, served.tokens["member"]) as client:
        assert [len(result) for result in client.gather(client.handles(tasks))] == [len(half) - 2] * 60
        assert [len(handle.result()) for handle in client.handles(tasks)] == [len(half) - 2] * 60


@pytest.mark.parametrize(
    ("body", "field", "detail"),
    [
        ({"ids": [1], "also": [2] * 10_000}, "/also", "`ids` and `also` may name 10000 tasks together, not 10001"),
        ({"ids": [1], "timeout": 31}, "/timeout", "timeout is from 0 to 30 seconds, not 31"),
    ],
)
def test_too_much_is_refused_with_the_field_and_the_bound(
    served: Served, body: dict[str, Any], field: str, detail: str
) -> None:
    [fault] = served.send("POST", "/v1/tasks/wait", body).json()["errors"]
    assert (fault["pointer"], fault["detail"]) == (field, detail)


@pytest.mark.parametrize(
    ("address", "detail"),
    [
        ("/v1/tasks/1/why?limit=1", "there is no query parameter 'limit'; this address takes none"),
        ("/v1/nodes?limit=1", "there is no query parameter 'limit'; there is only all"),
        ("/v1/tasks?limit=1&limit=2", "the query parameter limit is given 2 times; give it once"),
        ("/v1/tasks?limit=-1", "limit is a whole number from 1 to 1,000, not '-1'"),
        ("/v1/tasks/1/attempts?limit=many", "limit is a whole number from 1 to 1,000, not 'many'"),
        ("/v1/tasks?graph=x", "graph is a positive whole number, an id, not 'x'"),
        ("/v1/tasks/1?wait=99", "wait is a number of seconds from 0 to 30, not '99'"),
        ("/v1/tasks/1/log?follow=maybe", "follow is true or false, not 'maybe'"),
        ("/v1/tasks?tag=ml", "tag is NAME:VALUE, such as team:ml, not 'ml'"),
        ("/v1/tasks/1/log?stream=x", "stream is stdout or stderr, not 'x'; leave it out for both"),
    ],
)
def test_a_refused_query_parameter_is_named_with_its_value_and_what_would_be_right(
    served: Served, address: str, detail: str
) -> None:
    [fault] = served.send("GET", address).json()["errors"]
    assert fault["detail"] == detail
