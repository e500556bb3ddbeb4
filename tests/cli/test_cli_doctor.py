"""`rota doctor`: findings of this machine, and of machines that lack something."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rota.cli.operate import doctor, machine
from rota.cli.operate.finding import Finding
from rota.execute.keeper_link import KeeperFacts
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
    assert {"disk operations", "container engine"} <= set(findings)
    assert re.fullmatch(r"tzdata 20\d\d\.\d+, which is IANA's 20\d\d[a-z]", findings["time zones"]["detail"])
    assert list(data.iterdir()) == []


def test_a_machine_without_groups_is_told_how_to_get_them() -> None:
    assert machine.groups(KeeperFacts()).state == "missing"
    assert "Delegate=yes" in machine.groups(KeeperFacts()).remedy
    nothing = machine.limits(KeeperFacts())
    assert (nothing.state, nothing.detail) == ("missing", "none held by the kernel; not memory, pids, cpu, io")


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
