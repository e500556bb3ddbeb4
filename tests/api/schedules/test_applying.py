"""`PUT /v1/schedules/{name}`: the same again changes nothing, a difference is named, and a preview stores nothing."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.served import Said, Served, problem

TASK = {"command": ["true"], "unplaceable": "wait"}
NIGHTLY = {"daily": "02:30", "zone": "Europe/Berlin", "task": TASK}


def put(served: Served, name: str, said: dict[str, Any], **more: Any) -> Any:
    return served.send("PUT", f"/v1/schedules/{name}", said, **more)


def applied(served: Served, name: str, said: dict[str, Any]) -> tuple[str, dict[str, Any], int]:
    """What it did, what it changed, and the version afterwards."""
    answer = put(served, name, said)
    assert answer.status_code == (201 if answer.json()["result"] == "created" else 200), answer.text
    found = answer.json()
    assert answer.headers["etag"] == f'"{found["schedule"]["version"]}"'
    return found["result"], found["changes"], found["schedule"]["version"]


def preview(served: Served, said: dict[str, Any]) -> dict[str, Any]:
    answer = served.send("POST", "/v1/schedules/preview", said)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_same_again_changes_nothing_and_a_difference_is_named(served: Served) -> None:
    assert applied(served, "apply", NIGHTLY) == ("created", {}, 1)
    assert applied(served, "apply", NIGHTLY) == ("unchanged", {}, 1)
    assert applied(served, "apply", NIGHTLY | {"name": "apply", "daily": "03:00", "jitter": "5m", "overlap": "skip"}) == (
        "changed",
        {
            "rule": ["daily 02:30", "daily 03:00"],
            "jitter_seconds": [0.0, 300.0],
            "overlap": ["allow", "skip"],
        },
        2,
    )  # fmt: skip
    back = applied(served, "apply", NIGHTLY)
    assert (back[0], back[1]["overlap"]) == ("changed", ["skip", "allow"]), "what is left out has its default again"


def test_each_changed_field_of_a_task_is_named_and_values_of_variables_are_hidden(served: Served) -> None:
    task = {**TASK, "env": {"TOKEN": "secret-one", "DAY": "1"}, "tags": {"team": "ml"}}
    applied(served, "fields", {"daily": "02:30", "task": task})
    changed = {**TASK, "command": ["true", "x"], "env": {"TOKEN": "secret-two"}, "tags": {"team": "ml"}, "memory": "1G"}
    answer = put(served, "fields", {"daily": "02:30", "task": changed})
    assert "secret" not in answer.text
    assert answer.json()["changes"] == {
        "task.command": [["true"], ["true", "x"]],
        "task.env.TOKEN": ["(hidden)", "(hidden), new"],
        "task.env.DAY": ["(hidden)", None],
        "task.memory": [None, "1G"],
    }


def test_tasks_of_a_graph_are_compared_by_name(served: Served) -> None:
    extract, load = {**TASK, "ref": "extract"}, {**TASK, "ref": "load", "after": ["extract"]}
    whole = {"daily": "02:30", "tasks": [extract, load]}
    assert applied(served, "etl-apply", whole)[0] == "created"
    assert applied(served, "etl-apply", whole)[0] == "unchanged"
    found = applied(
        served, "etl-apply", {"daily": "02:30", "tasks": [{**load, "cap": "1h", "after": []}, {**TASK, "ref": "new"}]}
    )
    assert found[1] == {
        "tasks.extract": ["true", None],
        "tasks.load.after": [["extract"], None],
        "tasks.load.cap": [None, "1h"],
        "tasks.new": [None, "true"],
    }  # fmt: skip


def test_progress_stays_where_the_change_does_not_touch_it(served: Served) -> None:
    applied(served, "stays", NIGHTLY)
    moved = served.send("PATCH", "/v1/schedules/stays", {"next_at": "2035-01-01T00:00:00Z", "version": 1}).json()
    served.send("POST", "/v1/schedules/stays/pause")
    ran = served.send("POST", "/v1/schedules/stays/run").json()
    after = put(served, "stays", NIGHTLY | {"overlap": "queue"}).json()["schedule"]
    assert (after["next_at"], after["paused"], after["runs"]) == (moved["next_at"], True, 1)
    assert served.send("GET", f"/v1/tasks/{ran['tasks'][0]}").json()["state"] == "ready", "its run waits as before"
    resumed = put(served, "stays", NIGHTLY | {"overlap": "queue", "paused": False}).json()
    assert resumed["changes"] == {"paused": [True, False]}
    retimed = put(served, "stays", NIGHTLY | {"overlap": "queue", "daily": "04:00"}).json()["schedule"]
    assert datetime.fromisoformat(retimed["next_at"]) < datetime.now(UTC) + timedelta(days=2)


def test_an_interval_goes_on_from_its_anchor_unless_it_changes(served: Served) -> None:
    first = put(served, "anchored", {"every": "1h", "task": TASK, "anchor": "2020-01-01T00:07:00Z"}).json()["schedule"]
    same = put(served, "anchored", {"every": "PT60M", "task": TASK}).json()
    assert same["changes"] == {"rule": ["every 1h", "every PT60M"]}
    assert same["schedule"]["anchor"] == first["anchor"]
    other = put(served, "anchored", {"every": "2h", "task": TASK}).json()["schedule"]
    assert other["anchor"] != first["anchor"]


def test_a_version_guards_against_a_concurrent_edit(served: Served) -> None:
    assert problem(put(served, "guarded", NIGHTLY | {"version": 1})) == Said(412, "version-changed")
    applied(served, "guarded", NIGHTLY)
    served.send("POST", "/v1/schedules/guarded/pause")
    assert problem(put(served, "guarded", NIGHTLY, headers={"if-match": '"1"'})) == Said(412, "version-changed")
    assert put(served, "guarded", NIGHTLY, headers={"if-match": '"2"'}).json()["result"] == "unchanged"


def test_of_many_at_once_one_makes_it_and_the_others_find_it(served: Served) -> None:
    """Invariant: concurrent applications are serialised; none fails, and nothing is made twice."""
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: put(served, "crowd", NIGHTLY).json()["result"], range(16)))
    assert sorted(answers) == ["created", *["unchanged"] * 15]
    assert served.send("GET", "/v1/schedules/crowd").json()["version"] == 1


def test_a_single_time_that_has_passed_stays_as_it_is_and_is_no_new_rule(served: Served) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    assert applied(served, "single", {"at": soon, "task": TASK})[0] == "created"
    served.ask("update schedules set next_at = null, runs = 1, rule_text = '2001-01-01T00:00Z' where name = 'single'")
    assert applied(served, "single", {"at": "2001-01-01T00:00Z", "task": TASK})[0] == "unchanged"
    passed = put(served, "single", {"at": "2002-01-01T00:00Z", "task": TASK, "overlap": "never"})
    assert problem(passed).faults == (("/overlap", "out-of-range"), ("/at", "time-passed"))


def test_a_preview_names_the_difference_and_the_runs_and_stores_nothing(served: Served) -> None:
    whole = {"name": "seen", "task": {**TASK, "cpu": 1}, "daily": "02:30", "zone": "Europe/Berlin", "max_runs": 2}
    found = preview(served, whole | {"jitter": "5m", "overlap": "skip"})
    assert (found["accepted"], found["result"], found["name"]) == (True, "created", "seen")
    first, second = found["next"]
    assert (first["interval_end"], second["interval_start"]) == (first["instant"], first["instant"])
    assert datetime.fromisoformat(first["starts_by"]) == datetime.fromisoformat(first["instant"]) + timedelta(minutes=5)
    assert first["runs"] == "true"
    assert found["notes"] == [
        "each run starts up to 5m after its time",
        "a run is skipped if the last one has not ended then",
        "it ends after 2 more runs",
    ]
    assert found["run"]["groups"][0]["state"] == "ready"
    assert served.send("GET", "/v1/schedules/seen").status_code == 404
    applied(served, "seen", {name: value for name, value in whole.items() if name != "name"})
    assert preview(served, whole)["result"] == "unchanged"
    changed = preview(served, whole | {"daily": "05:00"})
    assert (changed["result"], changed["changes"]) == ("changed", {"rule": ["daily 02:30", "daily 05:00"]})
    assert served.send("GET", "/v1/schedules/seen").json()["rule"] == {"daily": "02:30"}


def test_a_preview_judges_a_file_that_would_be_uploaded(served: Served) -> None:
    digest = hashlib.sha256(b"#!/bin/sh\n").hexdigest()
    upload = {"sha256": digest, "size_bytes": 10, "name": "nightly.sh"}
    whole = {"name": "files", "daily": "02:30", "task": {"upload": f"sha256:{digest}", "unplaceable": "wait"}}
    assert problem(served.send("POST", "/v1/schedules/preview", whole)).faults == (
        ("/task/upload", "unknown-artifact"),
    )
    found = preview(served, whole | {"uploads": [upload]})
    assert found["run"]["uploads"] == [upload | {"stored": False}]
    large = served.send("POST", "/v1/schedules/preview", whole | {"uploads": [upload | {"size_bytes": 2**60}]})
    assert problem(large) == Said(413, "payload-too-large")
    assert served.send("GET", f"/v1/artifacts/sha256:{digest}").status_code == 404, "nothing is stored"


@pytest.mark.parametrize(
    ("said", "faults"),
    [
        ({"daily": "25:00", "zone": "Mars", "task": TASK, "overlap": "x"}, ["/daily", "/overlap", "/zone"]),
        ({"dayly": "02:30", "task": {"comand": ["x"], "cpu": -1}}, ["/dayly", "/task/comand", "/task/cpu"]),
        ({"cron": "61 * * * *", "zone": "Mars", "task": {**TASK, "lane": "x"}}, ["/cron", "/task/lane", "/zone"]),
        ({"daily": 5, "task": TASK, "max_runs": 0, "next_at": "x"}, ["/daily", "/max_runs", "/next_at"]),
        ({"daily": "x", "weekly": "mon@08:00", "zone": "Y", "task": TASK}, ["", "/daily", "/zone"]),
        ({"name": "other", "daily": "02:30", "task": TASK, "jitter": "x"}, ["/jitter", "/name"]),
        ({"at": "2001-01-01T00:00Z", "task": {**TASK, "tier": "x"}, "missed": "x"}, ["/at", "/missed", "/task/tier"]),
    ],
)
def test_all_faults_of_a_schedule_come_at_once(served: Served, said: dict[str, Any], faults: list[str]) -> None:
    assert sorted(pointer for pointer, _ in problem(put(served, "faulty", said)).faults) == faults


def test_an_edit_tells_all_faults_at_once_too(served: Served) -> None:
    applied(served, "edit-faults", NIGHTLY)
    said = {"version": 1, "overlap": "x", "task": {"comand": ["x"], "cpu": -1}, "next_at": "2001-01-01", "zne": "UTC"}
    faults = problem(served.send("PATCH", "/v1/schedules/edit-faults", said)).faults
    assert sorted(pointer for pointer, _ in faults) == ["/next_at", "/overlap", "/task/comand", "/task/cpu", "/zne"]
    gone = served.send("PATCH", "/v1/schedules/edit-faults", {"version": 1, "at": "2001-01-01T00:00Z"})
    assert problem(gone).faults == (("/at", "time-passed"),)


def test_the_refusal_of_a_taken_name_says_how_to_change_it(served: Served) -> None:
    applied(served, "taken", NIGHTLY)
    refused = served.send("POST", "/v1/schedules", NIGHTLY | {"name": "taken"})
    assert refused.json()["detail"] == (
        "there is a schedule taken already; change it with rota schedule edit taken, or apply a manifest of it with "
        "rota submit -f (PUT over HTTP)"
    )
