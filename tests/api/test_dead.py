"""Dead letters over plain HTTP: filters, the whole history, and bulk redrives of which each makes one new run (I20)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from tests.api.served import Served


def die(served: Served, name: str, failure: str = "oom", *, token: str = "") -> int:
    """A task that used up its attempts; there is no worker, so the rows say so by themselves."""
    task = served.submit(token, name=name, tags={"team": name})
    served.ask(
        """with gone as (delete from queue where id = $1 returning id, tenant),
            kept as (insert into attempts (task, number, tenant, state, outcome, reason, failure)
                select id, 1, tenant, 11, 2, $2 || ': too much', json_build_object('type', $2::text) from gone)
            insert into dead_letters (task, tenant, reason) select id, tenant, $2 || ': too much' from gone returning task""",
        task, failure,
    )  # fmt: skip
    return task


def test_letters_are_found_by_what_is_known_of_them(served: Served) -> None:
    name = uuid4().hex
    first, second = die(served, name), die(served, name, "timeout")

    def ids(query: str) -> list[int]:
        answer = served.send("GET", f"/v1/dead?name={name}&{query}")
        assert answer.status_code == 200, answer.text
        return [one["id"] for one in answer.json()["tasks"]]

    assert ids("") == [second, first]
    assert ids("over=memory") == [first]
    assert ids("over=cap") == [second]
    assert ids(f"tag=team:{name}&reason=TIMEOUT") == [second]
    assert ids("since=1h") == [second, first]
    assert ids("until=1h") == []
    assert ids("graph=12345") == ids("schedule=nothing") == []
    page = served.send("GET", f"/v1/dead?name={name}&limit=1").json()
    assert [one["id"] for one in page["tasks"]] == [second]
    assert ids(f"limit=1&cursor={page['next']}") == [first]
    assert served.send("GET", f"/v1/dead?name={name}", token=served.stranger).json()["tasks"] == []
    [listed] = served.send("GET", f"/v1/tasks?name={name}&state=failed&limit=1&graph=77").json()["tasks"] or [None]
    assert listed is None, "in no graph"


@pytest.mark.parametrize(
    ("query", "pointer"),
    [("over=speed", "/over"), ("tag=x", "/tag"), ("since=soon", "/since"), ("graph=x", "/graph"), ("graph=0", "/graph"),
     ("reason=", "/reason"), ("colour=red", "/colour"), ("tenant=nobody", "")],
)  # fmt: skip
def test_a_filter_that_means_nothing_is_refused_with_its_name(served: Served, query: str, pointer: str) -> None:
    answer = served.send("GET", f"/v1/dead?{query}")
    if not pointer:
        assert answer.status_code == 403, "whose letters they are is for administrators to choose"
        return
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_all_faults_of_a_bulk_filter_are_named_at_once(served: Served) -> None:
    where = {"over": "speed", "tag": "x", "since": "soon", "graph": -1}
    answer = served.send("POST", "/v1/dead/requeue", {"where": where})
    assert answer.status_code == 422
    found = {fault["pointer"] for fault in answer.json()["errors"]}
    assert found == {"/where/over", "/where/tag", "/where/since", "/where/graph"}
    for body in ({"where": {}, "all": True}, {"where": {"colour": "red"}}, {"ids": [1], "where": {}}):
        assert served.send("POST", "/v1/dead/discard", body).status_code in (400, 422)


def test_a_letter_tells_its_whole_history(served: Served) -> None:
    task = die(served, "history")
    document = served.send("GET", f"/v1/dead/{task}").json()
    assert (document["id"], document["reason"], document["task"]["state"]) == (task, "oom: too much", "failed")
    assert [one["number"] for one in document["attempts"]] == [1]
    assert [one["id"] for one in document["runs"]] == [task]
    assert served.send("GET", f"/v1/dead/{task}", token=served.stranger).status_code == 404
    again = served.send("POST", "/v1/dead/requeue", {"ids": [task]}).json()["requeued"][0]["as"]
    assert served.send("GET", f"/v1/dead/{task}").status_code == 404, "it is none any more"
    assert served.send("GET", f"/v1/tasks/{again}").json()["retry_of"] == task


def test_a_bulk_redrive_makes_one_new_run_of_each_whoever_asks(served: Served) -> None:
    name = uuid4().hex
    letters = [die(served, name) for _ in range(6)]
    other = die(served, uuid4().hex)
    where = {"name": name, "over": "memory"}
    counted = served.send("POST", "/v1/dead/requeue", {"where": where, "dry_run": True}).json()
    assert (counted["count"], counted["or_more"], counted["ids"]) == (6, False, letters)
    with ThreadPoolExecutor(3) as threads:
        answers = threads.map(lambda _: served.send("POST", "/v1/dead/requeue", {"where": where}).json(), range(3))
        requeued = [one for answer in answers for one in answer["requeued"]]
    assert sorted(one["id"] for one in requeued) == letters
    runs = served.ask("select retry_of from tasks where retry_of = any($1) order by 1", letters)
    assert [run for (run,) in runs] == letters
    left = served.send("POST", "/v1/dead/discard", {"where": {"name": name}}).json()
    assert left == {"discarded": []}
    assert served.send("GET", f"/v1/dead/{other}").status_code == 200


def test_a_bulk_discard_takes_those_a_filter_means(served: Served) -> None:
    name = uuid4().hex
    letters = [die(served, name) for _ in range(3)]
    kept = die(served, name, "timeout")
    gone = served.send("POST", "/v1/dead/discard", {"where": {"tag": f"team:{name}", "reason": "oom"}}).json()
    assert gone == {"discarded": letters}
    [listed] = served.send("GET", f"/v1/dead?name={name}").json()["tasks"]
    assert listed["id"] == kept
    assert served.send("GET", f"/v1/tasks/{letters[0]}").json()["state"] == "failed", "its history stays"


def test_a_redrive_in_rounds_leaves_what_died_after_it_began(served: Served) -> None:
    name = uuid4().hex
    first = die(served, name)
    where = {"name": name}
    counted = served.send("POST", "/v1/dead/requeue", {"where": where, "dry_run": True}).json()
    assert (counted["count"], counted["ids"]) == (1, [first])
    later = die(served, name)
    body = {"where": where, "before": counted["at"]}
    requeued = served.send("POST", "/v1/dead/requeue", body).json()["requeued"]
    assert [one["id"] for one in requeued] == [first]
    assert served.send("POST", "/v1/dead/requeue", body).json()["requeued"] == []
    for everything in (body, {"all": True, "before": counted["at"]}):
        assert later not in served.send("POST", "/v1/dead/discard", everything).json()["discarded"]
    for wrong in ("2030-01-01T00:00:00", "x", ""):
        refused = served.send("POST", "/v1/dead/discard", {"all": True, "before": wrong})
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/before")
