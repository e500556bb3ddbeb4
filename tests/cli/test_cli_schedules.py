"""`rota schedule`: requests, tables and error messages."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rota import AsyncClient, Client, Graph
from tests.cli.conftest import Rota
from tests.client.stub_server import Reply, StubServer, problem

SCHEDULE = {
    "name": "backup",
    "state": "active",
    "rule": {"daily": "02:30"},
    "zone": "Europe/Berlin",
    "version": 4,
    "next_at": "2030-07-01T00:30:00Z",
    "missed": "once",
    "overlap": "skip",
    "runs": 7,
    "tasks": [{"command": ["backup.sh", "/srv"]}],
}
APPLIED = {
    "result": "changed",
    "changes": {
        "rule": ["daily 02:00", "daily 02:30"],
        "jitter_seconds": [0, 300],
        "task.command": [["a b", "x"], ["a", "\x1b[31m"]],
        "max_runs": [3, None],
        "paused": [True, False],
    },
    "schedule": SCHEDULE,
}
PREVIEW = {
    "accepted": True,
    "name": "backup",
    "result": "created",
    "rule": {"daily": "02:30"},
    "zone": "Europe/Berlin",
    "next": [
        {
            "instant": "2030-07-01T00:30:00Z",
            "starts_by": "2030-07-01T00:35:00Z",
            "interval_start": "2030-06-30T00:30:00Z",
            "interval_end": "2030-07-01T00:30:00Z",
            "runs": "backup.sh /srv",
        }
    ],
    "notes": ["each run starts up to 5m after its time"],
    "run": {"accepted": True, "groups": [{"reason": "soon", "sentence": "it is about to start", "state": "ready"}]},
}
RUN = {"instant": "2030-07-01T00:30:00Z", "trigger": "manual", "tasks": [41, 42]}


def test_add_says_when_what_and_the_policies(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/schedules", Reply(201, SCHEDULE))
    ran = rota(
        "schedule",
        "add",
        "backup",
        "--daily",
        "02:30",
        "--tz",
        "Europe/Berlin",
        "--overlap",
        "skip",
        "--jitter",
        "5m",
        "--cap",
        "1h",
        "--",
        "backup.sh",
        "/srv",
        "--all",
    )
    assert (ran.code, ran.err) == (0, "")
    assert "Mon 2030-07-01 02:30:00 CEST" in ran.out
    assert server.asked("POST", "/v1/schedules")[0].json == {
        "name": "backup",
        "daily": "02:30",
        "zone": "Europe/Berlin",
        "overlap": "skip",
        "jitter": "5m",
        "task": {"command": ["backup.sh", "/srv", "--all"], "cap": "1h"},
    }


def test_hourly_needs_no_minute(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/schedules", Reply(201, SCHEDULE))
    for words in (["--hourly"], ["--hourly", "--tz", "UTC"], ["--hourly", "20"], ["--hourly=7"]):
        ran = rota("schedule", "add", "tick", *words, "--", "true", "--hourly", "3")
        assert (ran.code, ran.err) == (0, "")
    sent = [one.json for one in server.asked("POST", "/v1/schedules")]
    assert [one["hourly"] for one in sent] == ["0", "0", "20", "7"]
    assert {tuple(one["task"]["command"]) for one in sent} == {("true", "--hourly", "3")}


def test_a_manifests_graph_is_scheduled_whole(server: StubServer, rota: Rota, tmp_path: Path) -> None:
    server.on("POST", "/v1/schedules", Reply(201, SCHEDULE))
    file = tmp_path / "rota.yaml"
    file.write_text("tasks:\n  a:\n    command: [a.sh]\n  b:\n    command: [b.sh]\n    after: [a]\n")
    ran = rota("schedule", "add", "etl", "--every", "PT3H", "-f", str(file))
    assert (ran.code, ran.err) == (0, "")
    sent = server.asked("POST", "/v1/schedules")[0].json
    assert [one["ref"] for one in sent["tasks"]] == ["a", "b"]
    assert sent["every"] == "PT3H"


def test_a_manifest_may_say_when_and_under_which_name(server: StubServer, rota: Rota, tmp_path: Path) -> None:
    server.on("POST", "/v1/schedules", Reply(201, SCHEDULE))
    server.on("PUT", "/v1/schedules/etl", Reply(201, APPLIED))
    file = tmp_path / "rota.yaml"
    file.write_text("name: etl\nschedule: {daily: 02:30, overlap: skip}\ntasks:\n  a:\n    command: [a.sh]\n")
    assert rota("submit", "-f", str(file)).code == 0
    assert rota("schedule", "add", "-f", str(file), "--hourly", "5").code == 0
    sent = [server.asked(*route)[0].json for route in (("PUT", "/v1/schedules/etl"), ("POST", "/v1/schedules"))]
    assert [(one.get("name"), one["graph"], one["overlap"]) for one in sent] == [
        (None, "etl", "skip"),
        ("etl", "etl", "skip"),
    ]
    assert [(one.get("daily"), one.get("hourly")) for one in sent] == [("02:30", None), (None, "5")]
    assert "for schedule etl" in rota("validate", "-f", str(file)).out
    assert rota("validate", str(file)).out == rota("validate", "-f", str(file)).out
    for words, hint in (
        (("run", "-f", str(file)), "and rota run shows one task; use rota submit -f"),
        (("submit", "-f", str(file), "--wait"), "no end to wait for"),
        (("schedule", "add", "--daily", "02:30", "-f", str(tmp_path / "none.yaml")), "no such file"),
    ):
        ran = rota(*words)
        assert (ran.code, hint in ran.err) == (2, True), ran.err
    fault = {"pointer": "/zone", "code": "unknown-zone", "detail": "no such"}
    server.on("PUT", "/v1/schedules/etl", problem(422, "unknown-zone", "no", errors=[fault]))
    assert f"{file}:2:11: schedule.zone: no such" in rota("submit", "-f", str(file)).err


def test_applying_a_manifest_tells_each_difference(server: StubServer, rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "rota.yaml"
    file.write_text("name: backup\nschedule: {daily: 02:30}\ncommand: [a.sh]\n")
    server.on_document("PUT", "/v1/schedules/backup", APPLIED)
    assert rota("submit", "-f", str(file)).out == (
        "backup: changed; it runs next at Mon 2030-07-01 02:30:00 CEST\n"
        "  rule: daily 02:00 → daily 02:30\n"
        "  jitter: 0s → 5m00s\n"
        "  task.command: a b x → a \\x1b[31m\n"
        "  max runs: 3 → not given\n"
        "  paused: yes → no\n"
    )
    server.on_document("PUT", "/v1/schedules/backup", APPLIED | {"result": "unchanged", "changes": {}})
    assert rota("submit", "-f", str(file)).out == "backup: unchanged; it runs next at Mon 2030-07-01 02:30:00 CEST\n"


def test_a_dry_run_shows_the_next_runs_and_what_each_runs(server: StubServer, rota: Rota, tmp_path: Path) -> None:
    server.on_document("POST", "/v1/schedules/preview", PREVIEW)
    program = tmp_path / "backup.py"
    program.write_text("print(1)")
    shown = rota("schedule", "add", "backup", "--daily", "02:30", "--upload", str(program), "--dry-run")
    assert shown.code == 0
    for text in (
        "backup: would be created",
        "Mon 2030-07-01 02:30:00 CEST",
        "2030-07-01T00:35:00Z",
        "backup.sh /srv",
        "each run starts up to 5m after its time",
        "it is about to start",
    ):
        assert text in shown.out
    [asked] = server.received
    digest = hashlib.sha256(b"print(1)").hexdigest()
    assert asked.json == {
        "name": "backup",
        "daily": "02:30",
        "task": {"upload": f"sha256:{digest}", "interpreter": ["python3"]},
        "uploads": [{"sha256": digest, "size_bytes": 8, "name": "backup.py"}],
    }
    server.on_document("POST", "/v1/schedules/preview", PREVIEW | {"result": "changed"})
    taken = rota("schedule", "add", "backup", "--daily", "02:30", "--dry-run", "--", "x")
    assert (taken.code, "change it with rota schedule edit backup" in taken.err) == (4, True)
    file = tmp_path / "rota.yaml"
    file.write_text("name: backup\nschedule: {daily: 02:30}\ncommand: [a.sh]\n")
    for words in (("submit", "-f", str(file), "--dry-run"), ("validate", str(file), "--server")):
        assert rota(*words).code == 0, "of a manifest it may be there already"
    server.on_document("POST", "/v1/schedules/preview", PREVIEW | {"accepted": False})
    assert rota("submit", "-f", str(file), "--dry-run").code == 4


def test_all_faults_of_the_options_come_together_and_no_missing_rule_is_blamed_on_one(
    server: StubServer, rota: Rota
) -> None:
    ran = rota("schedule", "add", "b!", "--daily", "25:00", "--tz", "Mars", "--overlap", "foo", "--", "x")
    for text in (
        "NAME: a schedule has a name: letters, digits, . _ -, up to 100; 'b!' is not one",
        "--daily: '25:00' is not a time of day",
        "--tz: 'Mars' is not",
        "--overlap: 'foo' is not one of",
    ):
        assert text in ran.err
    assert ran.code == 2
    none = rota("schedule", "add", "b", "--", "x")
    assert (none.code, none.err.startswith("rota: say when it runs: give one of --at, --hourly")) == (2, True)
    assert rota("schedule", "edit", "b").err.startswith("rota: name at least one thing to change")
    assert server.received == []


def test_edit_takes_what_it_runs_and_when_from_a_manifest(server: StubServer, rota: Rota, tmp_path: Path) -> None:
    server.on_document("GET", "/v1/schedules/etl", SCHEDULE)
    server.on_document("PATCH", "/v1/schedules/etl", SCHEDULE)
    file = tmp_path / "rota.yaml"
    file.write_text("name: etl\nschedule: {daily: 02:30}\ncommand: [a.sh]\n")
    assert rota("schedule", "edit", "etl", "-f", str(file), "--tz", "Asia/Tokyo").code == 0
    assert server.asked("PATCH", "/v1/schedules/etl")[0].json == {
        "daily": "02:30",
        "zone": "Asia/Tokyo",
        "task": {"command": ["a.sh"], "name": "etl"},
        "version": 4,
    }


def test_files_that_are_here_are_sent_first(server: StubServer, rota: Rota, tmp_path: Path) -> None:
    script = tmp_path / "nightly.sh"
    script.write_bytes(b"#!/bin/sh\n")
    identity = f"sha256:{hashlib.sha256(script.read_bytes()).hexdigest()}"
    made = {"id": identity, "sha256": identity[7:], "size_bytes": 10, "name": "nightly.sh"}
    server.on("POST", "/v1/artifacts", Reply(201, made))
    server.on("POST", "/v1/schedules", Reply(201, SCHEDULE))
    assert rota("schedule", "add", "n", "--daily", "02:30", "--upload", str(script), "--array", "0-3").code == 0
    assert server.asked("POST", "/v1/schedules")[0].json["task"] == {"upload": identity, "array": "0-3"}


def test_what_can_not_be_is_said_before_any_request(server: StubServer, rota: Rota) -> None:
    for words, hint in (
        (("add", "x", "--", "true"), "give one of"),
        (("add", "x", "--daily", "1:00", "--hourly", "5", "--", "true"), "give one of"),
        (("add", "x", "--daily", "02:30", "--overlap", "maybe", "--", "true"), "--overlap"),
        (("add", "x", "--daily", "02:30"), "what to run"),
        (("add", "--daily", "02:30", "--", "backup.sh"), "'backup.sh' was taken for the name"),
        (("add",), "name the schedule"),
        (("add", "x", "--daily", "25:00", "--", "true"), "--daily: '25:00' is not a time of day; write 02:30"),
        (
            ("add", "x", "--daily", "02:30", "--tz", "berlin", "--", "true"),
            "--tz: 'berlin' is not an IANA time zone; did you mean Europe/Berlin?",
        ),
        (("add", "x", "--daily", "02:30", "--tz", "Amerika/New_York", "--", "true"), "did you mean America/New_York?"),
        (("add", "x", "--cron", "61 * * * *", "--", "true"), "--cron: '61' is not a minute"),
        (("add", "x", "--every", "soon", "--", "true"), "--every: 'soon' is not a duration"),
        (("add", "x", "--at", "tomorrow", "--", "true"), "--at: 'tomorrow' is not a time"),
        (("add", "x", "--daily", "02:30", "--ends-at", "later", "--", "true"), "--ends-at: 'later' is not a time"),
        (("add", "x", "--daily", "02:30", "--jitter", "some", "--", "true"), "--jitter: 'some' is not a duration"),
        (("edit", "x", "--daily", "03:00", "--hourly", "5"), "--hourly and --daily are given"),
        (("edit", "x", "--weekly", "monday"), "--weekly: 'monday' is not days and a time"),
        (("edit", "x"), "thing to change"),
    ):
        ran = rota("schedule", *words)
        assert ran.code == 2
        assert hint in ran.err
    assert server.received == []


def test_edit_names_the_version_it_read(server: StubServer, rota: Rota) -> None:
    server.on_document("GET", "/v1/schedules/backup", SCHEDULE)
    server.on_document("PATCH", "/v1/schedules/backup", {**SCHEDULE, "version": 5})
    assert rota("schedule", "edit", "backup", "--daily", "03:00").code == 0
    assert rota("schedule", "edit", "backup", "--next", "2030-07-02T09:00", "--version", "3").code == 0
    assert [one.json for one in server.asked("PATCH", "/v1/schedules/backup")] == [
        {"daily": "03:00", "version": 4},
        {"next_at": "2030-07-02T09:00", "version": 3},
    ]


def test_everything_else_is_one_word(server: StubServer, rota: Rota) -> None:
    path = "/v1/schedules/backup"
    server.on_document("GET", "/v1/schedules", {"schedules": [SCHEDULE], "next": None})
    server.on_document("GET", path, SCHEDULE)
    server.on_document("GET", f"{path}/next", {"next": [SCHEDULE["next_at"]], "zone": "Europe/Berlin"})
    skip = {"instant": "2030-06-30T00:30:00Z", "until": "2030-07-01T00:30:00Z", "trigger": "time", "skipped": "paused"}
    server.on_document("GET", f"{path}/history", {"occurrences": [{**RUN, "status": "failed"}, skip], "next": None})
    server.on_document("POST", f"{path}/pause", {**SCHEDULE, "state": "paused"})
    server.on_document("POST", f"{path}/resume", SCHEDULE)
    server.on_document("POST", f"{path}/skip-next", SCHEDULE)
    server.on("POST", f"{path}/run", Reply(201, RUN))
    server.on("POST", f"{path}/backfill", Reply(201, {"occurrences": [RUN], "already": [RUN["instant"]]}))
    server.on("DELETE", path, Reply(204))
    said = {
        "list": "daily 02:30",
        "show": "backup.sh /srv",
        "next": "CEST",
        "history": "failed",
        "pause": "backup is paused",
        "resume": "runs next at",
        "skip-next": "runs next at",
        "run-now": "41\n42",
        "remove": "backup is removed",
    }
    for word, words in said.items():
        ran = rota("schedule", word, *(() if word == "list" else ("backup",)))
        assert (ran.code, ran.err) == (0, "")
        assert words in ran.out, (word, ran.out)
    ran = rota("schedule", "backfill", "backup", "--from", "2030-06-01", "--to", "2030-07-02")
    assert "1 had their run before" in ran.out
    assert server.asked("POST", f"{path}/backfill")[0].json == {"from": "2030-06-01", "to": "2030-07-02"}


async def test_both_clients_have_schedules(server: StubServer) -> None:
    server.on("POST", "/v1/schedules", Reply(201, SCHEDULE))
    server.on_document("GET", "/v1/schedules", {"schedules": [SCHEDULE], "next": None})
    server.on_document("PATCH", "/v1/schedules/backup", SCHEDULE)
    with Client(server.url, "key") as client:
        made = client.schedules.add("backup", command=["backup.sh"], cap="1h", daily="02:30", zone="Europe/Berlin")
        assert made.next_at is not None
        client.schedules.add(
            "etl", tasks=[{"command": ["a"], "ref": "a"}, {"command": ["b"], "after": ["a"]}], every=10800
        )
        client.schedules.edit("backup", made.version, overlap="queue", task={"command": ["new.sh"]})
    async with AsyncClient(server.url, "key") as client_too:
        assert [one.name for one in await client_too.schedules.list()] == ["backup"]
    first, second = [one.json for one in server.asked("POST", "/v1/schedules")]
    assert first["task"] == {"command": ["backup.sh"], "cap": "1h"}
    assert [one["command"] for one in second["tasks"]] == [["a"], ["b"]]
    assert server.asked("PATCH", "/v1/schedules/backup")[0].json == {
        "overlap": "queue",
        "task": {"command": ["new.sh"]},
        "version": 4,
    }


async def test_both_clients_send_files_first_take_graphs_and_read_manifests(server: StubServer, tmp_path: Path) -> None:
    data = b"#!/bin/sh\n"
    identity = f"sha256:{hashlib.sha256(data).hexdigest()}"
    made = {"id": identity, "sha256": identity[7:], "size_bytes": len(data), "name": ""}
    server.on("POST", "/v1/artifacts", Reply(201, made))
    server.on("POST", "/v1/schedules", Reply(201, SCHEDULE))
    server.on_document("PUT", "/v1/schedules/told", APPLIED)
    server.on_document("PUT", "/v1/schedules/sent", APPLIED)
    server.on_document("POST", "/v1/schedules/preview", PREVIEW)
    server.on_document("PATCH", "/v1/schedules/backup", SCHEDULE)
    file = tmp_path / "rota.yaml"
    file.write_text("name: told\nschedule: {hourly: 5}\ncommand: [x]\n")
    graph = Graph("etl")
    graph.task(["a"], name="a") >> graph.task(["b"], name="b")
    with Client(server.url, "key") as client:
        client.schedules.add("sent", upload=data, daily="02:30")
        client.schedules.add("etl", tasks=graph.specs(), graph=graph.name, daily="02:30")
        assert client.schedule_manifest(file).result == "changed"
        assert client.schedules.apply("sent", upload=data, daily="02:30", version=3).schedule.version == 4
        with pytest.raises(ValueError, match="schedule_manifest"):
            client.submit_manifest(file)
        with pytest.raises(TypeError, match="one task has no graph"):
            client.schedules.add("x", command=["a"], graph="etl", daily="02:30")
    async with AsyncClient(server.url, "key") as client_too:
        await client_too.schedules.edit("backup", 4, task={"upload": data})
        await client_too.schedule_manifest(file)
        uploads = len(server.asked("POST", "/v1/artifacts"))
        assert (await client_too.schedules.preview("new", upload=data, daily="02:30", amount=2)).result == "created"
        assert len(server.asked("POST", "/v1/artifacts")) == uploads, "a preview uploads nothing"
    [asked] = server.asked("POST", "/v1/schedules/preview")
    assert (asked.query, asked.json["uploads"]) == ({"n": "2"}, [{"sha256": identity[7:], "size_bytes": len(data)}])
    assert server.asked("PUT", "/v1/schedules/sent")[0].json["version"] == 3
    sent, etl = [one.json for one in server.asked("POST", "/v1/schedules")]
    told, again = [one.json for one in server.asked("PUT", "/v1/schedules/told")]
    assert sent["task"] == {"upload": identity}
    assert (etl["graph"], etl["tasks"][1]["after"]) == ("etl", ["a"])
    assert told == again == {"hourly": 5, "task": {"command": ["x"], "name": "told"}}
    assert server.asked("PATCH", "/v1/schedules/backup")[0].json == {"task": {"upload": identity}, "version": 4}
