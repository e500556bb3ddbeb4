"""`/v1/schedules` over HTTP: what is made, edited and refused, and what a tenant never sees."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.served import Said, Served, problem

TASK = {"command": ["true"], "unplaceable": "wait"}


def add(served: Served, name: str, **said: Any) -> dict[str, Any]:
    when = {} if {"every", "cron", "weekly", "at", "monthly"} & set(said) else {"daily": "02:30"}
    made = served.send("POST", "/v1/schedules", {"name": name, "task": TASK, **when, **said})
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    return found


def test_a_schedule_is_made_read_listed_and_removed(served: Served) -> None:
    made = add(served, "backup", zone="Europe/Berlin", overlap="skip", jitter="5m", max_runs=3)
    assert (made["rule"], made["zone"], made["state"], made["version"]) == (
        {"daily": "02:30"},
        "Europe/Berlin",
        "active",
        1,
    )
    assert (made["jitter_seconds"], made["overlap"], made["missed"]) == (300, "skip", "once")
    read = served.send("GET", "/v1/schedules/backup")
    assert read.json() == made
    assert read.headers["etag"] == '"1"'
    assert "backup" in [one["name"] for one in served.send("GET", "/v1/schedules").json()["schedules"]]
    assert len(served.send("GET", "/v1/schedules/backup/next?n=5").json()["next"]) == 3  # it ends after three
    assert (
        problem(served.send("POST", "/v1/schedules", {"name": "backup", "task": TASK, "daily": "01:00"})).slug
        == "name-taken"
    )
    assert served.send("POST", "/v1/schedules/backup/skip-next").status_code == 200
    assert served.send("DELETE", "/v1/schedules/backup").status_code == 204
    assert problem(served.send("GET", "/v1/schedules/backup")) == Said(404, "not-found")
    assert served.ask("select count(*) from occurrences where schedule = $1", made["id"]) == [(0,)]


def test_an_edit_names_the_version_it_read(served: Served) -> None:
    add(served, "edited")
    assert problem(served.send("PATCH", "/v1/schedules/edited", {"overlap": "skip"})).status == 428
    assert problem(served.send("PATCH", "/v1/schedules/edited", {"overlap": "skip", "version": 9})) == Said(
        412, "version-changed"
    )
    changed = served.send("PATCH", "/v1/schedules/edited", {"weekly": "mon@08:00"}, headers={"if-match": '"1"'}).json()
    assert (changed["rule"], changed["version"], changed["next_at"][11:]) == ({"weekly": "mon@08:00"}, 2, "08:00:00Z")
    moved = served.send("PATCH", "/v1/schedules/edited", {"next_at": "2035-01-01T00:00:00Z", "version": 2}).json()
    assert moved["next_at"] == "2035-01-01T00:00:00Z"
    ahead = served.send("GET", "/v1/schedules/edited/next?n=2").json()["next"]
    assert ahead == ["2035-01-01T00:00:00Z", "2035-01-01T08:00:00Z"]  # a Monday
    (skip,) = served.send("GET", "/v1/schedules/edited/history").json()["occurrences"]
    assert (skip["skipped"], skip["instant"], skip["until"]) == (
        "moved to 2035-01-01T00:00:00Z", changed["next_at"], "2035-01-01T00:00:00Z",
    )  # fmt: skip


def test_run_now_makes_a_task_that_overlap_may_skip(served: Served) -> None:
    add(served, "manual", overlap="skip", zone="Asia/Kathmandu")
    first = served.send("POST", "/v1/schedules/manual/run")
    assert first.status_code == 201
    (task,) = first.json()["tasks"]
    shown = served.send("GET", f"/v1/tasks/{task}").json()
    assert (shown["schedule"], shown["scheduled_for"], shown["scheduling"], shown["lane"]) == (
        "manual", first.json()["instant"], "schedule", "periodic",
    )  # fmt: skip
    second = served.send("POST", "/v1/schedules/manual/run")
    assert second.status_code == 200
    assert "overlap" in second.json()["skipped"]
    history = served.send("GET", "/v1/schedules/manual/history?limit=1").json()
    assert history["occurrences"][0]["skipped"] == second.json()["skipped"]
    rest = served.send("GET", "/v1/schedules/manual/history", params={"before": history["next"]}).json()
    assert [one["tasks"] for one in rest["occurrences"]] == [[task]]


def test_pause_resume_and_skip_next_leave_their_reasons(served: Served) -> None:
    made = add(served, "held")
    assert served.send("POST", "/v1/schedules/held/pause").json()["state"] == "paused"
    assert served.send("POST", "/v1/schedules/held/resume").json()["next_at"] == made["next_at"]
    skipped = served.send("POST", "/v1/schedules/held/skip-next").json()
    assert skipped["next_at"] > made["next_at"]
    (row,) = served.send("GET", "/v1/schedules/held/history").json()["occurrences"]
    assert (row["instant"], row["skipped"], row["tasks"]) == (made["next_at"], "skipped by member-user", None)


def test_a_backfill_runs_every_past_instant_once(served: Served) -> None:
    add(served, "past", zone="Europe/Berlin")
    wanted = {"from": "2024-03-30", "to": "2024-04-02"}
    first = served.send("POST", "/v1/schedules/past/backfill", wanted).json()
    assert [one["instant"] for one in first["occurrences"]] == [
        f"2024-{clock}:00Z" for clock in ("03-30T01:30", "03-31T01:00", "04-01T00:30")
    ]
    again = served.send("POST", "/v1/schedules/past/backfill", wanted).json()
    assert (again["occurrences"], len(again["already"])) == ([], 3)
    task = served.send("GET", f"/v1/tasks/{first['occurrences'][1]['tasks'][0]}").json()
    assert task["spec"]["scheduled"] == ["2024-03-31T01:00:00Z", "2024-03-30T01:30:00Z", "2024-03-31T01:00:00Z"]
    add(served, "often", every="1s", paused=True)  # it must not run while other tests count what is stored
    long = served.send("POST", "/v1/schedules/often/backfill", {"from": "2024-01-01", "to": "2025-01-01"})
    assert problem(long) == Said(422, "out-of-range", (("/to", "out-of-range"),))


@pytest.mark.parametrize(
    ("said", "pointer", "code"),
    [
        ({}, "", "invalid-rule"),
        ({"daily": "02:30", "weekly": "mon@08:00"}, "", "invalid-rule"),
        ({"cron": "61 * * * *"}, "/cron", "invalid-cron"),
        ({"cron": "0 0 31 2 *"}, "/cron", "cron-never-fires"),
        ({"every": "100ms"}, "/every", "too-frequent"),
        ({"daily": "02:30", "zone": "Mars/Base"}, "/zone", "unknown-zone"),
        ({"at": "2001-01-01T00:00Z"}, "/at", "time-passed"),
        ({"daily": "02:30", "ends_at": "2001-01-01T00:00Z"}, "/ends_at", "never-fires"),
        ({"daily": "02:30", "overlap": "maybe"}, "/overlap", "out-of-range"),
        ({"daily": "02:30", "missed_limit": 0}, "/missed_limit", "out-of-range"),
        ({"daily": "02:30", "max_runs": -1}, "/max_runs", "out-of-range"),
        ({"daily": "02:30", "jitter": "soon"}, "/jitter", "out-of-range"),
        ({"daily": "02:30", "ends_at": "later"}, "/ends_at", "invalid-time"),
        ({"daily": "02:30", "zone": "Mars/Base", "ends_at": "2035-01-01"}, "/zone", "unknown-zone"),
        ({"daily": "02:30", "name": "no way"}, "/name", "invalid-name"),
        ({"daily": "02:30", "task": {"command": ["true"], "lane": "fast"}}, "/task/lane", "unknown-lane"),
        (
            {"daily": "02:30", "task": {"command": ["true"], "at": "2035-01-01T00:00Z"}},
            "/task/at",
            "inconsistent-times",
        ),
        ({"daily": "02:30", "version": 1}, "/version", "unknown-field"),
        (
            {"daily": "02:30", "task": {"command": ["true"], "files": {"a": "0" * 64}}},
            "/task/files/a",
            "unknown-artifact",
        ),
        ({"daily": "02:30", "graph": "etl"}, "/graph", "unknown-field"),
        ({"daily": "02:30", "dayly": "02:30"}, "/dayly", "unknown-field"),
    ],
)
def test_what_can_not_be_is_refused_by_field(served: Served, said: dict[str, Any], pointer: str, code: str) -> None:
    answer = problem(served.send("POST", "/v1/schedules", {"name": "bad", "task": TASK, **said}))
    assert (answer.status, answer.slug) == (422, code)
    assert answer.faults[0] == (pointer, code)
    assert served.send("GET", "/v1/schedules/bad").status_code == 404


def test_each_run_of_tasks_is_a_graph(served: Served) -> None:
    nodes = [{**TASK, "ref": "a"}, {**TASK, "ref": "b", "after": ["a"]}]
    body = {"name": "etl", "graph": "load the lake", "tasks": nodes, "daily": "02:30"}
    assert served.send("POST", "/v1/schedules", body).json()["graph"] == "load the lake"
    run = served.send("POST", "/v1/schedules/etl/run").json()
    shown = served.send("GET", f"/v1/graphs/{run['graph']}").json()
    assert (shown["name"], shown["status"], shown["schedule"], shown["scheduled_for"]) == (
        "load the lake", "waiting", "etl", run["instant"],
    )  # fmt: skip
    assert [one["id"] for one in shown["tasks"]] == run["tasks"]
    (row,) = served.send("GET", "/v1/schedules/etl/history").json()["occurrences"]
    assert (row["graph"], row["tasks"]) == (run["graph"], run["tasks"])
    assert run["graph"] in [one["id"] for one in served.send("GET", "/v1/graphs").json()["graphs"]]
    named = served.send("PATCH", "/v1/schedules/etl", {"tasks": nodes[:1], "graph": " ", "version": 1})
    assert problem(named) == Said(422, "invalid-name", (("/graph", "invalid-name"),))
    bad = served.send("POST", "/v1/schedules", {**body, "name": "bad", "tasks": [TASK, {**TASK, "ref": "7"}]})
    assert [one["pointer"] for one in bad.json()["errors"]] == ["/tasks/0/ref", "/tasks/1/ref"]
    cycle = [{**TASK, "ref": "a", "after": ["b"]}, {**TASK, "ref": "b", "after": ["a"]}]
    assert problem(served.send("POST", "/v1/schedules", {**body, "name": "bad", "tasks": cycle})).slug == "dag-cycle"


def test_what_a_schedule_brings_along_stays_as_long_as_it(served: Served) -> None:
    artifact = served.send("POST", "/v1/artifacts?name=nightly.sh", b"#!/bin/sh\ntrue\n").json()["id"]
    made = add(served, "bringing", task={"upload": artifact[:15], "unplaceable": "wait"})
    assert made["artifacts"] == [artifact]
    assert problem(served.send("DELETE", f"/v1/artifacts/{artifact}")) == Said(409, "artifact-in-use")
    edited = served.send("PATCH", "/v1/schedules/bringing", {"task": TASK, "version": 1})
    assert edited.json()["artifacts"] == []
    assert served.send("DELETE", f"/v1/artifacts/{artifact}").status_code == 204


def test_another_tenant_sees_and_touches_nothing(served: Served) -> None:
    add(served, "ours")
    for method, path in (
        ("GET", ""), ("GET", "/next"), ("GET", "/history"), ("POST", "/pause"), ("POST", "/run"), ("DELETE", ""),
    ):  # fmt: skip
        assert problem(served.send(method, f"/v1/schedules/ours{path}", token=served.stranger)) == Said(
            404, "not-found"
        )
    assert served.send("GET", "/v1/schedules", token=served.stranger).json()["schedules"] == []
    assert problem(served.send("POST", "/v1/schedules/ours/run", token=served.tokens["viewer"])).status == 403


def test_history_says_how_each_run_stands(served: Served) -> None:
    add(served, "told")
    graph = [{**TASK, "ref": "a"}, {**TASK, "ref": "b", "after": ["a"]}]
    assert (
        served.send("POST", "/v1/schedules", {"name": "told-graph", "tasks": graph, "daily": "02:30"}).status_code
        == 201
    )
    first, second = (served.send("POST", "/v1/schedules/told/run").json()["tasks"][0] for _ in range(2))
    run = served.send("POST", "/v1/schedules/told-graph/run").json()
    served.send("POST", f"/v1/tasks/{first}/cancel")

    def statuses(name: str) -> list[str | None]:
        found = served.send("GET", f"/v1/schedules/{name}/history").json()["occurrences"]
        return [one["status"] for one in found]

    assert statuses("told") == ["waiting", "cancelled"]
    again = served.send("POST", f"/v1/tasks/{first}/retry").json()["id"]
    assert statuses("told") == ["waiting", "waiting"], "a retry stands for what it repeats"
    served.send("POST", f"/v1/tasks/{again}/cancel")
    served.send("POST", "/v1/tasks/cancel", {"ids": [second]})
    assert statuses("told") == ["cancelled", "cancelled"]
    assert statuses("told-graph") == ["waiting"]
    served.send("POST", f"/v1/graphs/{run['graph']}/cancel")
    assert statuses("told-graph") == ["cancelled"]
    served.send("POST", "/v1/schedules/told/skip-next")
    assert statuses("told")[0] is None, "a skip is no run"
