"""Commands that take filters: they count, ask, send one request, follow it, and say how it ended."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import Rota
from tests.client.stub_server import Reply, StubServer

AT = "2030-01-01T00:00:00Z"
PREVIEW = {"verb": "cancel", "count": 200_000, "states": {"ready": 199_990, "running": 10}, "ids": [9, 8], "at": AT}


def operation(verb: str = "cancel", state: str = "done", **more: Any) -> dict[str, Any]:
    counts = {"expected": 2, "matched": 2, "changed": 2}
    return {"id": 5, "verb": verb, "state": state, "where": {"name": "etl"}, "created_at": AT, **counts, **more}


def arrange(server: StubServer, verb: str, ended: dict[str, Any], count: int = 2) -> None:
    preview = {**PREVIEW, "verb": verb, "count": count}
    server.on("POST", "/v1/operations", Reply(200, preview), Reply(201, operation(verb, "running")))
    server.on("GET", "/v1/operations/5", Reply(200, operation(verb, "running")), Reply(200, ended))


def bodies(server: StubServer) -> list[Any]:
    return [one.json for one in server.asked("POST", "/v1/operations")]


@pytest.mark.parametrize(
    ("arguments", "verb", "where", "changes", "said"),
    [
        ("cancel --name etl --state ready,blocked", "cancel", {"name": "etl", "state": "ready,blocked"}, None, "cancelled"),
        ("cancel --tag team=ml --older-than 2h", "cancel", {"tag": "team:ml", "until": "2h"}, None, "cancelled"),
        ("hold --graph 7 --reason later", "hold", {"graph": 7}, {"reason": "later"}, "held"),
        ("hold --worker n1", "hold", {"worker": "n1"}, None, "held"),
        ("release --user ann --since 1d", "release", {"user": "ann", "since": "1d"}, None, "released"),
        ("retry --schedule nightly", "retry", {"schedule": "nightly"}, None, "retried"),
        ("edit --status waiting --lane off-peak --in 1h", "edit", {"status": "waiting"}, {"lane": "off-peak", "delay": "1h"}, "edited"),
    ],
)  # fmt: skip
def test_a_filter_becomes_one_operation_of_what_was_counted(
    server: StubServer, rota: Rota, arguments: str, verb: str, where: Any, changes: Any, said: str
) -> None:
    arrange(server, verb, operation(verb))
    ran = rota(*arguments.split(), "--yes")
    assert (ran.code, ran.out, ran.err) == (0, f"{said} 2 tasks (operation 5)\n", "")
    counted, started = bodies(server)
    given = {} if changes is None else {"changes": changes}
    assert counted == {"verb": verb, "where": where, "dry_run": True, **given}, "wrong changes are found before asking"
    assert started == {"verb": verb, "where": where, "before": AT, **given}
    assert server.asked("POST", "/v1/operations")[1].headers["idempotency-key"]


def test_dead_letters_are_requeued_by_filter_and_all_of_them_only_when_confirmed(
    server: StubServer, rota: Rota
) -> None:
    arrange(server, "requeue", operation("requeue"))
    assert rota("dead", "requeue", "--over", "memory", "--yes").out == "requeued 2 dead letters (operation 5)\n"
    assert bodies(server)[1]["where"] == {"over": "memory"}
    arrange(server, "discard", operation("discard"))
    refused = rota("dead", "discard", "--all")
    assert (refused.code, "this would discard 2 dead letters; confirm with --yes" in refused.err) == (2, True)
    assert bodies(server)[-1] == {"verb": "discard", "all": True, "dry_run": True}
    arrange(server, "discard", operation("discard"))
    assert rota("dead", "discard", "--all", "--yes").code == 0
    assert bodies(server)[-1] == {"verb": "discard", "all": True, "before": AT}


def test_a_dry_run_shows_the_count_the_states_and_examples(server: StubServer, rota: Rota) -> None:
    server.on_document("POST", "/v1/operations", PREVIEW)
    ran = rota("cancel", "--all", "--dry-run")
    assert ran.code == 0
    assert ran.out == "would cancel 200,000 tasks: 199,990 ready, 10 running\nthe newest: 9, 8\n"
    assert rota("cancel", "--name", "etl", "--dry-run", "-o", "json").out.startswith(
        '{"verb": "cancel", "count": 200000'
    )
    assert all(body["dry_run"] for body in bodies(server))


def test_nothing_is_started_when_nothing_matches_or_nobody_confirms(server: StubServer, rota: Rota) -> None:
    server.on_document("POST", "/v1/operations", {**PREVIEW, "count": 0, "states": {}, "ids": []})
    ran = rota("cancel", "--name", "etl", "--yes")
    assert (ran.code, ran.out) == (0, "nothing matches, so there is nothing to cancel\n")
    server.on_document("POST", "/v1/operations", PREVIEW)
    refused = rota("cancel", "--name", "etl")
    assert refused.code == 2
    assert "this would cancel 200,000 tasks; confirm with --yes" in refused.err
    assert all(body.get("dry_run") for body in bodies(server))


@pytest.mark.parametrize(
    ("ended", "code", "said"),
    [
        ({"changed": 1, "ended": 1}, 0, "1 had ended before their turn"),
        ({"changed": 1, "refused": 1, "refusals": [{"reason": "running", "count": 1, "ids": [7]}]}, 4, "1 refused: running (7)"),
        ({"state": "stopped", "changed": 1}, 4, "it was stopped before its end"),
        ({"state": "failed", "trouble": "an error of the server"}, 4, "it failed: an error of the server"),
    ],
)  # fmt: skip
def test_the_end_is_told_in_sentences_and_by_the_exit_code(
    server: StubServer, rota: Rota, ended: dict[str, Any], code: int, said: str
) -> None:
    arrange(server, "hold", operation("hold", **{"state": "done", **ended}))
    ran = rota("hold", "--name", "etl", "--yes")
    assert ran.code == code
    assert said in ran.out


def test_the_json_of_a_change_by_filter_is_the_ended_operation(server: StubServer, rota: Rota) -> None:
    arrange(server, "cancel", operation())
    ran = rota("cancel", "--name", "etl", "--yes", "-o", "json")
    assert '"id":5' in ran.out
    assert '"state":"done"' in ran.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cancel"], "name tasks, or give a filter such as --name, or --all"),
        (["hold", "7", "--name", "etl"], "one of the three"),
        (["cancel", "--all", "--name", "etl"], "one of the three"),
        (["retry", "7", "--dry-run"], "--dry-run: a dry run needs a filter"),
        (["cancel", "--until", "1h", "--older-than", "1h"], "give --until or --older-than, not both"),
        (["cancel", "--older-than", "soon"], "--older-than"),
        (["cancel", "--state", "asleep"], "--state: 'asleep' is not known"),
        (["edit", "--name", "etl"], "name at least one thing to change"),
        (["edit", "--name", "etl", "--lane", "urgent", "--version", "3"], "a version is that of one task"),
        (["operation", "list", "--state", "asleep"], "--state: 'asleep' is not known"),
    ],
)
def test_a_bad_choice_is_one_line_and_no_request(
    server: StubServer, rota: Rota, arguments: list[str], message: str
) -> None:
    ran = rota(*arguments)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert server.received == []


def test_several_ids_are_edited_or_retried_one_after_the_other(server: StubServer, rota: Rota) -> None:
    for task in (7, 8):
        server.on_document("POST", f"/v1/tasks/{task}/retry", {"id": task + 100, "retry_of": task})
    ran = rota("retry", "7", "8")
    assert (ran.code, ran.out) == (0, "107\n108\n")


def test_a_discard_of_what_is_no_dead_letter_any_more_says_so(server: StubServer, rota: Rota) -> None:
    gone = {"id": 7, "reason": "there is no dead letter 7"}
    server.on_document("POST", "/v1/dead/discard", {"discarded": [], "refused": [gone]})
    ran = rota("dead", "discard", "7")
    assert (ran.code, ran.err) == (3, "rota: nothing to discard: there is no dead letter 7\n")
    server.on_document("POST", "/v1/dead/discard", {"discarded": [8], "refused": [gone]})
    ran = rota("dead", "discard", "7", "8")
    assert (ran.code, ran.out) == (4, "discarded 1\nthere is no dead letter 7\n")


def test_operations_are_listed_shown_and_stopped(server: StubServer, rota: Rota) -> None:
    server.on_document("GET", "/v1/operations", {"operations": [operation()], "next": "c"})
    listed = rota("operation", "list", "--state", "done")
    assert "name=etl" in listed.out
    assert "--cursor c" in listed.out
    server.on_document("GET", "/v1/operations/5", operation(or_more=True, expected=1_000_000))
    assert "1,000,000 or more tasks" in rota("operation", "show", "5").out
    server.on_document("POST", "/v1/operations/5/stop", operation(state="stopped", changed=1))
    assert rota("operation", "stop", "5").out == "cancelled 1 task (operation 5)\nit was stopped before its end\n"


def test_a_task_of_a_graph_is_named_to_list_what_depends_on_it(server: StubServer, rota: Rota) -> None:
    named = {"id": 7, "state": "ready", "name": "own", "name_in_graph": "load", "status": "waiting"}
    server.on_document("GET", "/v1/tasks", {"tasks": [named], "next": None})
    assert "load (own)" in rota("list", "--graph", "12", "--behind", "extract", "--older-than", "1h").out
    assert server.asked("GET", "/v1/tasks")[-1].query == {
        "graph": "12",
        "descendants_of": "extract",
        "until": "1h",
        "limit": "50",
    }
