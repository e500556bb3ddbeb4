"""Edits and holds of waiting tasks over plain HTTP: what changes, what is refused, and what is told (R50)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from rota.model.accounts.permissions import Role
from tests.api.served import PREFIX, Served


def edit(
    served: Served, task: int, changes: dict[str, Any], *, version: int | None = 0, token: str = ""
) -> httpx.Response:
    headers = {} if version is None else {"if-match": f'"{version}"'}
    return served.send("PATCH", f"/v1/tasks/{task}", changes, token=token, headers=headers)


def slug(answer: httpx.Response) -> str:
    return str(answer.json()["type"]).removeprefix(PREFIX)


def row(served: Served, task: int) -> tuple[Any, ...]:
    return served.ask(
        """select queue.pool = (select id from pools where name = 'small'), queue.lane, -urgency, queue.cap_ms, version,
            extract(epoch from queue.start_by - tasks.created_at)::integer,
            extract(epoch from queue.start_by - queue.wake_at)::integer
            from queue join tasks using (id) where id = $1""",
        task,
    )[0]


def test_a_waiting_task_changes_in_all_that_may_change_and_the_change_is_on_record(served: Served) -> None:
    task = served.submit(tolerance="10m", cap="5m")
    assert row(served, task) == (False, 1, 0, 300_000, 0, 600, 60)
    answer = edit(served, task, {"priority": 9, "lane": "urgent", "cap": "2h", "tolerance": "5m", "pool": "small"})
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert row(served, task) == (True, 0, 9, 7_200_000, 1, 300, 30)
    fields = ("pool", "lane", "priority", "cap_seconds", "tolerance_seconds", "version")
    assert [document[name] for name in fields] == ["small", "urgent", 9, 7200.0, 300.0, 1]
    [record] = document["edits"]
    assert (record["user"], record["changes"]["lane"], record["changes"]["tolerance_seconds"]) == (
        "member-user", ["normal", "urgent"], [600.0, 300.0],
    )  # fmt: skip
    [listed] = served.send("GET", "/v1/tasks?state=ready&limit=1").json()["tasks"]
    assert (listed["id"], listed["pool"], listed["lane"], listed["priority"]) == (task, "small", "urgent", 9)
    assert served.send("POST", f"/v1/tasks/{task}/cancel").status_code == 200
    ended = served.send("GET", f"/v1/tasks/{task}").json()
    assert (ended["pool"], ended["priority"], ended["version"]) == ("small", 9, None), "as it was when it ended"


def test_an_edit_names_the_version_it_is_about(served: Served) -> None:
    task = served.submit()
    answer = edit(served, task, {"priority": 1}, version=None)
    assert (answer.status_code, slug(answer)) == (428, "version-required")
    assert edit(served, task, {"priority": 1, "version": 0}, version=None).status_code == 200
    answer = edit(served, task, {"priority": 2})
    assert (answer.status_code, slug(answer), answer.json()["version"]) == (412, "version-changed", 1)
    assert edit(served, task, {"priority": 2}, version=1).json()["priority"] == 2
    answer = served.send("PATCH", f"/v1/tasks/{task}", {"priority": 3}, headers={"if-match": "*"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/If-Match")


def test_all_faults_of_an_edit_are_named_at_once_and_nothing_changes(served: Served) -> None:
    name, _ = served.add_tenant(plan="free")
    token = served.add_token(name)
    task = served.submit(token)
    answer = edit(
        served,
        task,
        {"priority": 10**7, "lane": "fast", "cap": "2d", "tolerance": "-5m", "pool": "nowhere"},
        token=token,
    )
    assert answer.status_code == 422
    found = {fault["pointer"]: fault["detail"] for fault in answer.json()["errors"]}
    assert found.keys() == {"/priority", "/lane", "/cap", "/tolerance", "/pool"}
    assert "the longest of plan free" in found["/cap"]
    assert "there are" in found["/lane"]
    assert "small" in found["/pool"]
    assert row(served, task)[1:5] == (1, 0, 3_600_000, 0)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [({}, ""), ({"cap": "soon"}, "/cap"), ({"cap": 0}, "/cap"), ({"lane": ""}, "/lane"), ({"pool": ""}, "/pool")],
)
def test_an_edit_that_says_nothing_sensible_is_refused(served: Served, changes: dict[str, Any], pointer: str) -> None:
    answer = edit(served, served.submit(), changes)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer), answer.text


@pytest.mark.parametrize("body", [{"priority": None}, {"tier": "basic"}, {"cap": []}, [], {"version": "x"}])
def test_an_edit_of_the_wrong_shape_is_refused(served: Served, body: Any) -> None:
    answer = edit(served, served.submit(), body)
    assert answer.status_code in (400, 422), answer.text


def test_a_task_moves_only_to_a_pool_that_could_have_taken_it(served: Served) -> None:
    large, labelled = served.submit(cpu=8), served.submit(require={"zone": "b"})
    for task, words in ((large, "could ever hold it"), (labelled, "zone=b")):
        answer = edit(served, task, {"pool": "small"})
        [fault] = answer.json()["errors"]
        assert (answer.status_code, fault["pointer"], fault["code"]) == (422, "/pool", "unsatisfiable")
        assert words in fault["detail"]
    patient = served.submit(cpu=8, unplaceable="wait")
    assert edit(served, patient, {"pool": "small"}).json()["pool"] == "small"


def test_a_blocked_task_takes_its_edges_along_and_its_new_tolerance_counts_from_its_release(served: Served) -> None:
    parent = served.submit()
    child = served.submit(after=[parent], tolerance="10m")
    assert edit(served, child, {"pool": "small", "tolerance": "1h"}).json()["state"] == "blocked"
    [(moved,)] = served.ask(
        "select child_pool = (select id from pools where name = 'small') from edges where child = $1", child
    )
    assert moved
    assert served.send("GET", f"/v1/tasks/{child}").json()["tolerance_seconds"] == 3600


def test_what_runs_or_has_ended_is_not_edited_and_the_answer_says_what_it_is(served: Served) -> None:
    task = served.submit()
    served.ask(
        """update queue set state = 4, attempt = 1, node = 1, boot = 1, epoch = 1, version = 1 where id = $1
            returning id""",
        task,
    )
    answer = edit(served, task, {"priority": 1})
    assert (answer.status_code, slug(answer)) == (409, "already-running"), "whatever version it names"
    assert "rota extend" in answer.json()["detail"]
    answer = served.send("POST", f"/v1/tasks/{task}/hold")
    assert (answer.status_code, slug(answer)) == (409, "already-running")
    served.ask("update queue set state = 3, version = 2 where id = $1 returning id", task)
    served.send("POST", f"/v1/tasks/{task}/cancel")
    answer = edit(served, task, {"priority": 1})
    assert (answer.status_code, slug(answer)) == (409, "already-terminal")
    assert "cancelled" in answer.json()["detail"]


def test_a_stranger_a_viewer_and_nobody_may_not_edit_or_hold(served: Served) -> None:
    task = served.submit()
    viewer = served.tokens[Role.VIEWER.value]
    for token, status in ((served.stranger, 404), (viewer, 403)):
        assert edit(served, task, {"priority": 1}, token=token).status_code == status
        assert served.send("POST", f"/v1/tasks/{task}/hold", token=token).status_code == status
    assert served.send("PATCH", f"/v1/tasks/{task}", {"priority": 1}, token=None).status_code == 401
    answer = served.send("POST", "/v1/tasks/hold", {"ids": [task]}, token=served.stranger).json()
    assert answer == {"held": [], "refused": [{"id": task, "reason": "unknown"}]}


def test_a_held_task_says_why_and_goes_on_as_what_it_was(served: Served) -> None:
    ready, blocked = served.submit(), served.submit(delay="1h")
    answer = served.send("POST", "/v1/tasks/hold", {"ids": [ready, blocked, 999_999], "reason": "waits for data"})
    assert answer.json() == {"held": [ready, blocked], "refused": [{"id": 999_999, "reason": "unknown"}]}
    document = served.send("GET", f"/v1/tasks/{ready}").json()
    assert (document["state"], document["reason"]) == ("paused", "held by member-user: waits for data")
    why = served.send("GET", f"/v1/tasks/{ready}/why").json()
    assert why["reason"] == "held"
    assert why["sentence"] == f"held by member-user: waits for data; rota release {ready} lets it go on"
    listed = served.send("GET", "/v1/tasks?state=paused&limit=2").json()["tasks"]
    assert [one["reason"] for one in listed] == ["held by member-user: waits for data"] * 2
    assert edit(served, ready, {"priority": 5}, version=document["version"]).json()["state"] == "paused"
    assert served.send("POST", f"/v1/tasks/{ready}/hold", {"reason": "still"}).status_code == 200
    assert served.send("GET", f"/v1/tasks/{ready}").json()["reason"] == "held by member-user: still"
    answer = served.send("POST", "/v1/tasks/release", {"ids": [ready, blocked]}).json()
    assert answer == {"released": [ready, blocked], "refused": []}
    assert served.send("POST", f"/v1/tasks/{ready}/release").json()["state"] == "ready", "harmless twice"
    assert served.send("GET", f"/v1/tasks/{blocked}").json()["state"] == "delayed"
    assert served.send("GET", f"/v1/tasks/{ready}").json()["reason"] is None


@pytest.mark.parametrize("reason", ["x" * 201, "two\nlines", "nul\0"])
def test_a_reason_is_one_short_line(served: Served, reason: str) -> None:
    answer = served.send("POST", f"/v1/tasks/{served.submit()}/hold", {"reason": reason})
    assert answer.status_code in (400, 422), answer.text


# ---- a start time that is moved --------------------------------------------------------------------------------------


def times(served: Served, task: int) -> tuple[str, int | None, int]:
    """Its state, and in how many minutes it is due, and late."""
    document = served.send("GET", f"/v1/tasks/{task}").json()
    [(wakes, late)] = served.ask(
        """select round(extract(epoch from wake_at - now()) / 60)::integer,
            round(extract(epoch from start_by - now()) / 60)::integer from queue where id = $1""",
        task,
    )
    return document["state"], wakes, late


@pytest.mark.parametrize("submitted", [{}, {"delay": "1h"}, {"at": "2099-01-01T00:00:00Z"}])
def test_a_start_time_can_be_moved_given_and_taken_away(served: Served, submitted: dict[str, str]) -> None:
    if "at" in submitted:
        submitted = {"at": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    task = served.submit(tolerance="10m", **submitted)
    moved = edit(served, task, {"delay": "3h"})
    assert moved.status_code == 200, moved.text
    assert times(served, task) == ("delayed", 180, 190)
    [record] = moved.json()["edits"]
    assert record["changes"]["not_before"][1] == moved.json()["not_before"]
    at = (datetime.now(UTC) + timedelta(hours=5)).isoformat()
    assert edit(served, task, {"at": at, "tolerance": "20m"}, version=1).status_code == 200
    assert times(served, task) == ("delayed", 300, 320)
    assert edit(served, task, {"delay": 0}, version=2).status_code == 200
    assert times(served, task) == ("ready", 18, 20), "its timer is the time at which it becomes urgent"


def test_the_start_time_of_a_held_or_blocked_task_is_obeyed_later(served: Served) -> None:
    held = served.submit(tolerance="10m")
    served.send("POST", f"/v1/tasks/{held}/hold")
    assert edit(served, held, {"delay": "2h"}, version=1).json()["state"] == "paused"
    served.send("POST", f"/v1/tasks/{held}/release")
    assert times(served, held)[:2] == ("delayed", 120)
    blocked = served.submit(after=[held], delay="9h")
    assert edit(served, blocked, {"delay": "4h"}).json()["state"] == "blocked"
    assert times(served, blocked)[:2] == ("blocked", None)
    [(moved,)] = served.ask(
        "select round(extract(epoch from not_before - now()) / 60)::integer from queue where id = $1", blocked
    )
    assert moved == 240


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"at": "tomorrow"}, "/at"),
        ({"at": "2030-01-01T00:00:00"}, "/at"),
        ({"at": "3030-01-01T00:00:00Z"}, "/at"),
        ({"delay": "-1h"}, "/delay"),
        ({"delay": "soon"}, "/delay"),
        ({"at": "2030-01-01T00:00:00Z", "delay": "1h"}, "/at"),
    ],
)
def test_a_bad_start_time_is_named_and_nothing_changes(served: Served, changes: dict[str, str], pointer: str) -> None:
    task = served.submit()
    answer = edit(served, task, changes)
    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]
    assert served.send("GET", f"/v1/tasks/{task}").json()["version"] == 0
