"""Dead letters over plain HTTP: filters, the whole history, and bulk redrives of which each makes one new run (I20)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
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
    [("over=speed", "/over"), ("tag=x", "/tag"), ("since=soon", "/since"), ("since=-5m", "/since"), ("graph=x", "/graph"), ("graph=0", "/graph"),
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
    answer = served.send("POST", "/v1/operations", {"verb": "requeue", "where": where})
    assert answer.status_code == 422
    found = {fault["pointer"] for fault in answer.json()["errors"]}
    assert found == {"/where/over", "/where/tag", "/where/since", "/where/graph"}


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


def operation(served: Served, verb: str, where: dict[str, object], **more: object) -> dict[str, Any]:
    """The operation once it has ended; of a dry run, its preview."""
    answer = served.send("POST", "/v1/operations", {"verb": verb, "where": where, **more})
    assert answer.status_code in (200, 201), answer.text
    document: dict[str, Any] = answer.json()
    return served.send("GET", f"/v1/operations/{document['id']}?wait=30").json() if "id" in document else document


def test_a_bulk_redrive_makes_one_new_run_of_each_whoever_asks(served: Served) -> None:
    name = uuid4().hex
    letters = [die(served, name) for _ in range(6)]
    other = die(served, uuid4().hex)
    where: dict[str, object] = {"name": name, "over": "memory"}
    counted = operation(served, "requeue", where, dry_run=True)
    assert (counted["count"], counted["or_more"], counted["ids"]) == (6, False, letters[::-1])
    with ThreadPoolExecutor(3) as threads:
        ended = list(threads.map(lambda _: operation(served, "requeue", where), range(3)))
    assert sum(one["changed"] for one in ended) == 6
    runs = served.ask("select retry_of from tasks where retry_of = any($1) order by 1", letters)
    assert [run for (run,) in runs] == letters
    assert operation(served, "discard", {"name": name})["matched"] == 0
    assert served.send("GET", f"/v1/dead/{other}").status_code == 200


def test_a_bulk_discard_takes_those_a_filter_means(served: Served) -> None:
    name = uuid4().hex
    letters = [die(served, name) for _ in range(3)]
    kept = die(served, name, "timeout")
    assert operation(served, "discard", {"tag": f"team:{name}", "reason": "oom"})["changed"] == 3
    [listed] = served.send("GET", f"/v1/dead?name={name}").json()["tasks"]
    assert listed["id"] == kept
    assert served.send("GET", f"/v1/tasks/{letters[0]}").json()["state"] == "failed", "its history stays"


def test_a_discard_by_id_names_those_that_are_no_dead_letters(served: Served) -> None:
    letter = die(served, uuid4().hex)
    first = served.send("POST", "/v1/dead/discard", {"ids": [letter]}).json()
    assert first == {"discarded": [letter], "refused": []}
    again = served.send("POST", "/v1/dead/discard", {"ids": [letter]}).json()
    assert again == {"discarded": [], "refused": [{"id": letter, "reason": f"there is no dead letter {letter}"}]}
    assert served.send("GET", f"/v1/dead/{letter}").json()["detail"] == f"there is no dead letter {letter}"


def test_a_bulk_redrive_leaves_what_died_after_its_count(served: Served) -> None:
    name = uuid4().hex
    first = die(served, name)
    where: dict[str, object] = {"name": name}
    counted = operation(served, "requeue", where, dry_run=True)
    assert (counted["count"], counted["ids"]) == (1, [first])
    later = die(served, name)
    assert operation(served, "requeue", where, before=counted["at"])["changed"] == 1
    assert operation(served, "requeue", where, before=counted["at"])["matched"] == 0
    assert operation(served, "discard", where, before=counted["at"])["matched"] == 0
    assert served.send("GET", f"/v1/dead/{later}").status_code == 200
    for wrong in ("2030-01-01T00:00:00", "x", ""):
        body = {"verb": "discard", "all": True, "before": wrong}
        refused = served.send("POST", "/v1/operations", body)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/before")
