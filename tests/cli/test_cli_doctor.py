"""`rota doctor`: findings of this machine, and of machines that lack something."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rota.cli.operate import database, doctor, machine
from rota.cli.operate.database_findings import findings_of
from rota.cli.operate.finding import Finding
from rota.cli.shell.reasons import reason_of
from rota.execute.keeper_link import KeeperFacts
from rota.model.answers.cluster import DatabaseCheck
from rota.store import doctor as store_doctor
from tests.cli.conftest import Rota
from tests.client.stub_server import StubServer


def test_what_this_machine_can_do_is_tried_out_and_nothing_is_left(
    server: StubServer, rota: Rota, tmp_path: Path
) -> None:
    server.on_document("GET", "/readyz", {})
    data = tmp_path / "data"
    data.mkdir()
    ran = rota("doctor", "--data", str(data), "-o", "json")
    findings = {one["what"]: one for one in json.loads(ran.out)["findings"]}
    assert ran.code == 0, ran.out
    assert (findings["sandbox"]["state"], findings["sandbox"]["detail"]) == ("ok", "proven from the inside")
    assert findings["bubblewrap"]["state"] == findings["user namespaces"]["state"] == "ok"
    assert findings["control groups"]["state"] == "ok"
    assert (findings["spawning"]["state"], findings["spawning"]["detail"]) == ("ok", "without a fork")
    assert findings["limits"]["detail"].startswith("memory, pids, cpu")
    assert {"CPU", "disk operations", "container engine"} <= set(findings)
    assert re.fullmatch(r"tzdata 20\d\d\.\d+, which is IANA's 20\d\d[a-z]", findings["time zones"]["detail"])
    assert list(data.iterdir()) == []


def test_a_machine_without_groups_is_told_how_to_get_them() -> None:
    assert machine.groups(KeeperFacts()).state == "missing"
    assert "Delegate=yes" in machine.groups(KeeperFacts()).remedy
    nothing = machine.limits(KeeperFacts())
    assert (nothing.state, nothing.detail) == ("missing", "none held by the kernel; not memory, pids, cpu, io")


def test_it_says_whether_cpu_is_shared_by_grants() -> None:
    assert machine.cpu(KeeperFacts(groups={"cpu": "/x"})).state == "ok"
    equally = machine.cpu(KeeperFacts(groups={"memory": "/x"}))
    assert (equally.state, equally.detail) == ("missing", "shared equally, whatever the grants: no weights, no quotas")


def test_the_layout_of_groups_is_named() -> None:
    every = dict.fromkeys(("kill", "memory", "pids", "cpu", "io"), "/x")
    assert machine.groups(KeeperFacts(groups=every)).detail == "v2"
    assert machine.groups(KeeperFacts(groups={"kill": "/x"})).detail == "v2, for ending tasks only"
    assert machine.groups(KeeperFacts(groups=every, is_v2=False)).detail == "v1, with a v2 tree beside them"
    assert machine.limits(KeeperFacts(groups=every)).state == "ok"
    assert machine.limits(KeeperFacts(groups={"kill": "/x", "memory": "/x"})).detail == (
        "memory held by the kernel; not pids, cpu, io"
    )


def test_what_keeps_users_from_making_namespaces_is_named_with_its_remedy() -> None:
    assert machine.namespaces(lambda path: "96343" if path.endswith("max_user_namespaces") else "").state == "ok"
    for path, value in (
        ("/proc/sys/user/max_user_namespaces", "0"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
    ):
        settings = {path: value}
        finding = machine.namespaces(lambda asked, settings=settings: settings.get(asked, ""))
        name = path.removeprefix("/proc/sys/").replace("/", ".")
        assert (finding.state, finding.detail) == ("missing", f"{name} is {value}")
        assert f"sysctl {name}=" in finding.remedy


def test_without_the_compiled_part_it_says_how_to_get_it() -> None:
    finding = machine.spawning(is_compiled=False)
    assert (finding.state, "C compiler" in finding.remedy) == ("missing", True)


def test_no_disk_no_sandbox() -> None:
    assert machine.disk("", "/dev/shm/data", is_held=True).state == "missing"
    assert machine.disk("8:0", "/data", is_held=False).state == "missing"
    assert machine.disk("8:0", "/data", is_held=True).state == "ok"
    assert machine.sandbox("mount: Operation not permitted").detail == "mount: Operation not permitted"


def test_brackets_in_what_to_install_are_shown(
    server: StubServer, rota: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on_document("GET", "/readyz", {})
    lacking = Finding("server packages", "missing", "without asyncpg", "pip install 'rota[server]'")
    monkeypatch.setattr(doctor, "_packages", lambda: [lacking])
    monkeypatch.setattr(doctor, "_machine", lambda _: [])
    assert "'rota[server]'" in rota("doctor", "--data", str(tmp_path)).out


CURRENT = {"postgresql": 18, "schema": 40, "is_current": True, "stuck": []}


def database_findings(server: StubServer, rota: Rota, tmp_path: Path) -> dict[str, tuple[str, str]]:
    server.on_document("GET", "/readyz", {})
    found = json.loads(rota("doctor", "--data", str(tmp_path), "-o", "json").out)["findings"]
    return {one["what"]: (one["state"], one["detail"]) for one in found if one["what"] in _OF_DATABASE}


_OF_DATABASE = ("database", "schema", "stuck tasks")


def test_without_an_address_the_server_is_asked_about_its_database(
    server: StubServer, rota: Rota, tmp_path: Path
) -> None:
    server.on_document("GET", "/v1/database", CURRENT)
    assert database_findings(server, rota, tmp_path) == {
        "database": ("ok", "PostgreSQL 18"),
        "schema": ("ok", "version 40"),
        "stuck tasks": ("ok", "none: the watchdog query found no task that nothing will ever move"),
    }


def test_a_server_that_is_not_ready_is_not_asked_about_its_database(
    server: StubServer, rota: Rota, tmp_path: Path
) -> None:
    server.on_document("GET", "/readyz", {"detail": "the database is away"}, status=503)
    ran = rota("doctor", "--data", str(tmp_path / "data"), "-o", "json")
    findings = {one["what"]: one for one in json.loads(ran.out)["findings"]}
    assert "the database is away" in findings["server"]["detail"]
    assert findings["database"]["detail"] == "not checked: no server is ready"
    assert server.asked("GET", "/v1/database") == []


def test_tasks_that_nothing_will_move_are_named() -> None:
    found = findings_of(DatabaseCheck(postgresql=14, schema=3, is_current=True, stuck=[7, 8]))
    assert [one.state for one in found] == ["broken", "ok", "broken"]
    assert (found[0].remedy, found[2].detail) == ("PostgreSQL 15 or newer", "2 found: 7, 8")
    old = findings_of(DatabaseCheck(postgresql=18, schema=3, is_current=False))
    assert [(one.what, one.state) for one in old] == [("database", "ok"), ("schema", "broken")]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError(), "there was no answer in time (TimeoutError)"),
        (ConnectionResetError(), "the connection ended (ConnectionResetError)"),
        (OSError(111, "Connection refused"), "[Errno 111] Connection refused (ConnectionRefusedError)"),
        (ValueError("two\nlines"), "two lines (ValueError)"),
        (KeyError(), "KeyError without a message"),
        (RuntimeError(), "RuntimeError without a message"),
    ],
)
def test_every_error_is_said_in_words_also_without_a_message(error: Exception, said: str) -> None:
    assert reason_of(error) == said


def test_an_error_without_a_message_names_what_caused_it() -> None:
    error = RuntimeError()
    error.__cause__ = TimeoutError()
    assert reason_of(error) == "RuntimeError, because there was no answer in time (TimeoutError)"


def test_a_keeper_that_does_not_answer_in_time_is_a_finding_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(work: Path) -> None:
        raise TimeoutError

    monkeypatch.setattr(machine, "_try_out", never)
    (finding, *_) = machine.findings(tmp_path)
    assert finding.detail == "its keeper can't be tried out: there was no answer in time (TimeoutError)"


def test_a_database_that_does_not_answer_is_a_finding_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(url: str) -> None:
        raise TimeoutError

    monkeypatch.setattr(store_doctor, "examine_database", never)
    (finding,) = database.findings("postgresql://a@b/c")
    assert finding.detail == "the database does not answer (TimeoutError)"


def test_a_line_to_copy_is_never_cut_off(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"pip install '/{'a' * 100}.whl[server]'"
    monkeypatch.setenv("COLUMNS", "80")
    doctor._draw([Finding("server packages", "missing", "without asyncpg", line)])
    assert "".join(line.split()) in re.sub(r"\s", "", capsys.readouterr().out)
