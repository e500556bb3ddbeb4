"""The history of a task over HTTP: the attempt that runs, the lane that each ran in, and dependencies both ways."""

from __future__ import annotations

from typing import Any

import pytest

from rota.store import dependents
from tests.api.served import Served


def run(served: Served, task: int, *, lane: int) -> None:
    """As a start writes it; there is no worker here."""
    served.ask(
        """update queue set state = 4, attempt = attempt + 1, version = version + 1, node = 1, boot = 1, epoch = 1, grace_ms = 600000,
            started_at = now() - interval '1 minute', wake_at = null, ran_lane = $2 where id = $1 returning 1""",
        task, lane,
    )  # fmt: skip


def end(served: Served, task: int) -> None:
    """As a settlement writes it."""
    served.ask("delete from queue where id = $1 returning 1", task)
    served.ask(
        """insert into attempts (task, number, tenant, state, outcome, node, started_at, run_us, lane)
        values ($1, 1, $2, 10, 1, 1, now() - interval '1 minute', 59000000, 0) returning 1""",
        task, served.tenant,
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
