"""Lesson 6: the `rota` command from day to day: later, dead letters, cancel, plans, and its exit codes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from rota import Client, LimitExceeded

Rota = Callable[..., subprocess.CompletedProcess[str]]


def test_in_means_not_before_so_long_from_now(rota: Rota, client: Client) -> None:
    number = int(rota("submit", "--in", "10m", "--", "true").stdout)
    document = client.get(number)
    assert (document.state, document.scheduling) == ("delayed", "at")
    assert document.not_before is not None
    assert document.created_at is not None
    assert 590 < (document.not_before - document.created_at).total_seconds() < 610
    assert rota("cancel", str(number)).returncode == 0
    assert client.get(number).state == "cancelled"


def test_a_script_file_is_sent_as_text_and_gets_its_words(rota: Rota, tmp_path: Path) -> None:
    script = tmp_path / "greet.sh"
    script.write_text('#!/bin/sh\necho "hello $1 from $WHO"\n')
    ran = rota("run", "--script", str(script), "--env", "WHO=ann", "--", "bob")
    assert (ran.returncode, ran.stdout) == (0, "hello bob from ann\n")


def test_a_function_by_name_gives_its_result_as_json(rota: Rota) -> None:
    number = rota("submit", "--function", "sample_tasks:add", "--args", "[2, 3]", "--wait").stdout.strip()
    assert rota("result", number).stdout.strip() == "5"


def test_after_makes_one_wait_for_another(rota: Rota, client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = client.submit(["sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done"], cap="60s")
    second = rota("submit", "--after", str(first.id), "--", "true").stdout.strip()
    assert client.get(int(second)).state == "blocked"
    gate.touch()
    assert rota("wait", str(first.id), second).returncode == 0


def test_wait_and_submit_wait_tell_success_from_failure_by_their_exit_code(rota: Rota) -> None:
    assert rota("submit", "--wait", "--", "true").returncode == 0
    failed = rota("submit", "--wait", "--", "sh", "-c", "exit 9")
    assert failed.returncode == 1
    assert "exited with code 9" in failed.stderr
    assert rota("wait", failed.stdout.strip()).returncode == 1


def test_exit_codes_name_the_kind_of_trouble(rota: Rota) -> None:
    assert rota("show", "999999999").returncode == 3
    assert rota("submit", "--pool", "nowhere", "--", "true").returncode == 4
    assert rota("submit", "--cpu", "lots", "--", "true").returncode == 2
    assert rota("wait", rota("submit", "--in", "1h", "--", "true").stdout.strip(), "--timeout", "50ms").returncode == 6


def test_dead_letters_are_listed_requeued_and_discarded(rota: Rota, client: Client, tmp_path: Path) -> None:
    cure = tmp_path / "cure"
    curable = client.submit(["sh", "-c", f"[ -e {cure} ]"], name="curable")
    hopeless = client.submit(["sh", "-c", "exit 4"], name="hopeless")
    client.gather([curable, hopeless], timeout=30, return_errors=True)
    listed = {task["id"]: task for task in json.loads(rota("dead", "list", "-o", "json").stdout)["tasks"]}
    assert listed[hopeless.id]["reason"] == "exit-code: exited with code 4"
    cure.touch()
    requeued = json.loads(rota("dead", "requeue", str(curable.id), "-o", "json").stdout)["requeued"]
    (again,) = [one["as"] for one in requeued if one["id"] == curable.id]
    assert client.handle(again).wait(timeout=30).state == "done"
    assert client.get(again).retry_of == curable.id
    assert client.get(curable.id).retried_as == again
    assert rota("dead", "discard", str(hopeless.id)).returncode == 0
    left = {task.id for task in client.dead()}
    assert not left & {curable.id, hopeless.id}
    assert client.get(hopeless.id).state == "failed", "discarded from the list; its history stays"


def test_dead_letters_are_found_by_what_is_known_of_them_and_handled_together(rota: Rota, client: Client) -> None:
    name = uuid4().hex
    slow = client.submit(["sleep", "60"], name=name, cap="100ms")
    wrong = client.submit(["sh", "-c", "exit 4"], name=name, tags={"team": "ml"}, attempts=2, backoff=0.01)
    client.gather([slow, wrong], timeout=30, return_errors=True)

    def found(*options: str) -> set[int]:
        said = rota("dead", "list", "--name", name, "-o", "json", *options)
        return {task["id"] for task in json.loads(said.stdout)["tasks"]}

    assert found() == {slow.id, wrong.id} == {letter.id for letter in client.dead(name=name)}
    assert found("--over", "cap") == {slow.id}
    assert found("--tag", "team=ml", "--reason", "code 4", "--since", "1h") == {wrong.id}
    shown = rota("dead", "show", str(wrong.id)).stdout
    assert shown.count("exited with code 4") >= 2, "each attempt"
    assert [one.number for one in client.dead_letter(wrong.id).attempts] == [1, 2]
    assert rota("dead", "requeue", "--name", name, "--dry-run").stdout == "would requeue 2 dead letters\n"
    refused = rota("dead", "discard", "--name", name)
    assert (refused.returncode, "confirm with --yes" in refused.stderr) == (2, True), (
        "a filter asks, and here is nobody"
    )
    requeued = rota("dead", "requeue", "--name", name, "--over", "cap", "--yes")
    assert requeued.stdout.startswith("requeued 1 dead letter (operation ")
    assert client.get(slow.id).retried_as is not None
    discarded = rota("dead", "discard", "--name", name, "--tag", "team=ml", "--yes")
    assert discarded.stdout.startswith("discarded 1 dead letter (operation ")
    assert client.operations.preview("discard", name=name, tag=("team", "ml")).count == 0
    again = rota("dead", "discard", str(wrong.id))
    assert (again.returncode, again.stderr) == (3, f"rota: nothing to discard: there is no dead letter {wrong.id}\n")


def test_all_tasks_that_a_filter_selects_are_changed_together(rota: Rota, client: Client) -> None:
    name = uuid4().hex
    waiting = client.submit_many([{"command": ["true"], "name": name, "delay": "1h"} for _ in range(3)])
    shown = rota("cancel", "--name", name, "--dry-run").stdout
    assert shown.startswith("would cancel 3 tasks: 3 delayed\nthe newest: ")
    refused = rota("hold", "--name", name)
    assert (refused.returncode, "this would hold 3 tasks; confirm with --yes" in refused.stderr) == (2, True)
    held = rota("hold", "--name", name, "--reason", "not today", "--yes", "-o", "json")
    operation = json.loads(held.stdout)
    assert (operation["state"], operation["changed"], operation["changes"]) == ("done", 3, {"reason": "not today"})
    assert rota("edit", "--name", name, "--priority", "5", "--yes").stdout.startswith("edited 3 tasks (operation ")
    assert client.get(waiting[0].id).priority == 5
    assert rota("release", "--name", name, "--yes").stdout.startswith("released 3 tasks")
    ended = client.operations.start("cancel", name=name, state="delayed").wait(timeout=30)
    assert (ended.state, ended.changed) == ("done", 3)
    assert {client.get(task.id).state for task in waiting} == {"cancelled"}
    assert rota("cancel", "--name", name, "--yes").stdout == "nothing matches, so there is nothing to cancel\n"
    assert f"name={name}" in rota("operation", "list").stdout
    assert "3 tasks" in rota("operation", "show", str(ended.id)).stdout
    assert rota("operation", "stop", str(ended.id)).returncode == 4


def test_a_retry_of_something_that_is_done_is_refused(rota: Rota) -> None:
    number = rota("submit", "--wait", "--", "true").stdout.strip()
    refused = rota("retry", number)
    assert refused.returncode == 4
    assert "is done" in refused.stderr


def test_many_are_cancelled_at_once_and_those_that_can_not_be_are_named(rota: Rota, client: Client) -> None:
    waiting = [client.submit(["true"], delay="1h") for _ in range(2)]
    done = client.submit(["true"])
    done.wait(timeout=30)
    answer = client.cancel([handle.id for handle in (*waiting, done)])
    assert answer.cancelled == [handle.id for handle in waiting]
    assert [(one.id, one.reason) for one in answer.refused] == [(done.id, "ended")]
    assert rota("cancel", str(done.id)).returncode == 4


def test_an_administrator_changes_what_a_plan_means(rota: Rota, neighbour: Client) -> None:
    before = json.loads(rota("plan", "show", "free", "-o", "json").stdout)
    assert (before["burst"], before["tasks_per_hour"]) == (50, 100)
    neighbour.submit_many([{"command": ["true"], "delay": "1h"}] * 50)
    with pytest.raises(LimitExceeded, match="100 tasks an hour"):
        neighbour.submit(["true"], delay="1h")
    assert rota("plan", "set", "business", "--weight", "5").returncode == 0
    changed = json.loads(rota("plan", "show", "business", "-o", "json").stdout)
    assert (changed["weight"], changed["burst"]) == (5, 50_000), "what is not named stays as it is"


def test_me_shows_who_i_am_and_what_i_may_use(rota: Rota) -> None:
    me = json.loads(rota("me", "-o", "json").stdout)
    assert (me["tenant"], me["user"], me["role"], me["plan"]["name"]) == ("default", "admin", "admin", "unlimited")


def test_nodes_and_servers_are_shown(rota: Rota) -> None:
    (node,) = json.loads(rota("node", "list", "-o", "json").stdout)["nodes"]
    assert (node["name"], node["state"], node["capacity"]["cpu"]) == ("node-0", "up", 4.0)
    (server,) = json.loads(rota("server", "list", "-o", "json").stdout)["servers"]
    assert (server["name"], server["leads"]) == ("server-0", ["default"])
