"""Tasks on the command line: what is sent, what is shown, and with which exit code each command ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Rota
from tests.client.stub_documents import chunk, end, ended
from tests.client.stub_documents import task as task_document
from tests.client.stub_server import Lost, Reply, Stream, StubServer, problem

SUBMITTED = Reply(201, {"id": 7, "state": "ready", "created": True})


def test_submit_prints_the_id_alone(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    ran = rota("submit", "--", "echo", "-n", "hi")
    assert (ran.code, ran.out, ran.err) == (0, "7\n", "")
    assert server.received[0].json == {"command": ["echo", "-n", "hi"]}


def test_submit_sends_every_option(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    line = (
        "--name n --cpu 500m --cpu-limit quota --memory 1G --disk 2G --gpu 1 --port 2 --port 1 --tier basic --require zone=a "
        "--attempts 3 --cap 1h --tolerance 2h --priority 5 --after 3,4 --after 5 --upstream run "
        "--idempotency-key k --concurrency-key c --concurrency-limit 2 --concurrency-scope global --in 10m --pool p --lane urgent "
        "--env A=b=c --tag team=ml --backoff 30s --iops 5k --bandwidth 100M --custom license=2 --category report "
        "--preemptible --unplaceable wait"
    )
    assert rota("submit", *line.split(), "ls", "-l").code == 0
    sent = server.received[0]
    assert sent.headers["idempotency-key"] == "k"
    assert sent.json == {
        "command": ["ls", "-l"],
        "name": "n",
        "cpu": "500m",
        "cpu_limit": "quota",
        "memory": "1G",
        "disk": "2G",
        "gpus": 1,
        "ports": 3,
        "tier": "basic",
        "require": {"zone": "a"},
        "attempts": 3,
        "cap": "1h",
        "tolerance": "2h",
        "priority": 5,
        "after": [3, 4, 5],
        "upstream": "run",
        "concurrency_key": "c",
        "concurrency_limit": 2,
        "concurrency_scope": "global",
        "delay": "10m",
        "pool": "p",
        "lane": "urgent",
        "env": {"A": "b=c"},
        "tags": {"team": "ml"},
        "backoff": "30s",
        "iops": "5k",
        "bandwidth": "100M",
        "custom": {"license": 2},
        "category": "report",
        "preemptible": True,
        "unplaceable": "wait",
    }


def test_half_a_gpu_is_asked_for_as_a_number(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    assert rota("submit", "--gpu", "0.5", "ls").code == 0
    assert server.received[0].json == {"command": ["ls"], "gpus": 0.5}


def test_submit_reads_a_script_and_passes_words_on_as_its_arguments(
    server: StubServer, rota: Rota, tmp_path: object
) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    file = f"{tmp_path}/job.sh"
    with open(file, "w", encoding="utf-8") as opened:
        opened.write("echo $1\n")
    assert rota("submit", "--script", file, "--", "é").code == 0
    assert server.received[0].json == {"script": "echo $1\n", "args": ["é"]}


@pytest.mark.parametrize(("text", "interpreter"), [("print(1)\n", ["python3"]), ("#!/usr/bin/python2\n", None)])
def test_a_script_without_a_first_line_for_it_is_run_by_the_program_of_its_suffix(
    server: StubServer, rota: Rota, tmp_path: Path, text: str, interpreter: list[str] | None
) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    (tmp_path / "fit.py").write_text(text)
    assert rota("submit", "--script", f"{tmp_path}/fit.py").code == 0
    chosen = {} if interpreter is None else {"interpreter": interpreter}
    assert server.received[0].json == {"script": text, **chosen}


def test_submit_sends_a_function_with_json_arguments(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    rota("submit", "--function", "shop.mail:send", "--args", "[1]", "--kwargs", '{"to": "x"}')
    assert server.received[0].json == {"function": "shop.mail:send", "args": [1], "kwargs": {"to": "x"}}
    rota("submit", "--function", "shop.mail:send", "--package", "sha256:9f86d081884c")
    assert server.received[1].json == {"function": "shop.mail:send", "package": "sha256:9f86d081884c"}


def test_a_lost_answer_to_a_submit_is_asked_for_again_with_the_same_key(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/tasks", Lost(), SUBMITTED)
    assert rota("submit", "--", "true").out == "7\n"
    first, second = server.received
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_submit_and_wait_exits_1_when_the_task_fails(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    server.on_document("GET", "/v1/tasks/7", task_document(7, "failed", exit_code=3))
    ran = rota("submit", "--wait", "--", "false")
    assert (ran.code, ran.out, ran.err) == (1, "7\n", "rota: task 7 failed with exit code 3\n")


def test_run_passes_both_streams_on_and_ends_with_the_tasks_exit_code(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    lines = (chunk(b"out\x1b[0m\n"), chunk(b"err\n", seq=1, stream="stderr"), end("failed", 42))
    server.on("GET", "/v1/tasks/7/log", Stream(lines))
    failure = {"type": "exit-code", "message": "exited with code 42"}
    server.on_document("GET", "/v1/tasks/7", task_document(7, "failed", exit_code=42, failure=failure))
    ran = rota("run", "--", "job")
    assert (ran.code, ran.out, ran.err) == (42, "out\x1b[0m\n", "err\n")


@pytest.mark.parametrize(("state", "exit_code", "code"), [("done", 0, 0), ("failed", 42, 42), ("cancelled", None, 125)])
def test_run_for_machines_is_one_document_with_the_task_and_its_output(
    server: StubServer, rota: Rota, state: str, exit_code: int | None, code: int
) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    lines = (chunk(b"out\xff\n"), chunk(b"err\n", seq=1, stream="stderr"), end(state, exit_code))
    server.on("GET", "/v1/tasks/7/log", Stream(lines))
    server.on_document("GET", "/v1/tasks/7", task_document(7, state, exit_code=exit_code))
    ran = rota("run", "-o", "json", "--", "job")
    found = json.loads(ran.out)
    assert (ran.code, ran.err) == (code, "")
    assert (found["id"], found["state"], found["exit_code"]) == (7, state, exit_code)
    assert found["output"] == {"stdout": "out\\xff\n", "stderr": "err\n"}


def test_run_ends_like_a_shell_for_a_task_ended_by_a_signal_and_says_so(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    server.on("GET", "/v1/tasks/7/log", Stream((end("failed", -9),)))
    failure = {"type": "signal", "message": "died of SIGKILL"}
    server.on_document("GET", "/v1/tasks/7", task_document(7, "failed", exit_code=-9, failure=failure))
    ran = rota("run", "--", "job")
    assert (ran.code, ran.err) == (137, "rota: task 7 failed: signal: died of SIGKILL\n")


@pytest.mark.parametrize(
    ("exit_code", "slug", "sentence", "code"),
    [
        (137, "oom", "went over its memory: 64M granted, 64M used", 137),
        (143, "timeout", "ran longer than its cap of 1s", 143),
        (0, "timeout", "ran longer than its cap of 1s", 1),  # it heard the signal and ended well, in its own eyes
        (0, "bad-result", "the result is not JSON", 1),
    ],
)
def test_run_says_which_limit_ended_a_task_and_never_exits_0_for_one_that_failed(
    server: StubServer, rota: Rota, exit_code: int, slug: str, sentence: str, code: int
) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    server.on("GET", "/v1/tasks/7/log", Stream((end("failed", exit_code),)))
    failure = {"type": slug, "message": sentence}
    server.on_document("GET", "/v1/tasks/7", task_document(7, "failed", exit_code=exit_code, failure=failure))
    ran = rota("run", "--", "job")
    assert (ran.code, ran.err) == (code, f"rota: task 7 failed: {slug}: {sentence}\n")


def test_run_shows_a_functions_traceback_and_exits_1(server: StubServer, rota: Rota) -> None:
    failure = {"type": "ValueError", "message": "no", "traceback": "Traceback …\n"}
    server.on("POST", "/v1/tasks", SUBMITTED)
    server.on("GET", "/v1/tasks/7/log", Stream((end("failed", None),)))
    server.on_document("GET", "/v1/tasks/7", task_document(7, "failed", failure=failure))
    ran = rota("run", "--function", "json:loads")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "Traceback …\nrota: task 7 failed: ValueError: no\n"


def test_run_exits_125_when_the_task_was_cancelled(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    server.on("GET", "/v1/tasks/7/log", Stream((end("cancelled", None),)))
    server.on_document("GET", "/v1/tasks/7", task_document(7, "cancelled"))
    ran = rota("run", "--", "job")
    assert (ran.code, ran.err) == (125, "rota: task 7 was cancelled\n")


@pytest.mark.parametrize(
    "answer",
    [
        problem(401, "unauthorized", "no"),
        problem(429, "rate-limited", "no"),
        problem(422, "out-of-range", "no"),
    ],
)
def test_run_exits_125_for_trouble_of_its_own(server: StubServer, rota: Rota, answer: Reply) -> None:
    server.on("POST", "/v1/tasks", answer)
    ran = rota("run", "--", "job")
    assert (ran.code, ran.out) == (125, "")


def test_a_limit_is_named_with_when_to_come_back(server: StubServer, rota: Rota) -> None:
    detail = "plan free allows 100 tasks an hour, 50 of them at once; 0 would be allowed now, 1 was asked for"
    answer = problem(429, "rate-limited", detail, title="Limit exceeded", retry_after=1083)
    server.on("POST", "/v1/tasks", answer)
    ran = rota("submit", "--", "job")
    assert (ran.code, ran.err) == (4, f"rota: Limit exceeded: {detail}; try again in 18m3s\n")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (problem(404, "not-found", "there is no such task"), 3),
        (problem(401, "unauthorized", "no key"), 4),
        (problem(403, "forbidden", "lacks tasks:read"), 4),
        (problem(409, "already-terminal", "it is done"), 4),
        (problem(422, "out-of-range", "too much"), 4),
        (problem(429, "rate-limited", "Limit exceeded", retry_after=3), 4),
        (problem(503, "unavailable", "no leader"), 5),
        (Reply(500, body=b"oops"), 5),
        (Lost(), 5),
    ],
)
def test_each_refusal_has_its_exit_code_and_its_problem_as_json(
    server: StubServer, rota: Rota, answer: Reply, code: int
) -> None:
    server.on("POST", "/v1/tasks/7/cancel", answer)
    plain, machine = rota("cancel", "7"), rota("cancel", "7", "-o", "json")
    assert (plain.code, plain.out, machine.code, machine.out) == (code, "", code, "")
    assert plain.err.startswith("rota: ")
    assert plain.err.count("\n") == 1
    detail = json.loads(machine.err)
    assert detail == answer.document if isinstance(answer, Reply) and answer.document else "detail" in detail


def test_a_server_that_is_away_is_exit_5(server: StubServer, rota: Rota) -> None:
    server.close()
    ran = rota("list")
    assert (ran.code, "cannot be reached" in ran.err) == (5, True)


def test_list_shows_a_table_and_the_exact_document_as_json(server: StubServer, rota: Rota) -> None:
    page = {"tasks": [task_document(7, "running", node="n1"), task_document(6, "done")], "next": "abc"}
    server.on_document("GET", "/v1/tasks", page)
    table = rota("list", "--status", "in progress", "--tag", "team=ml", "--limit", "2")
    assert table.code == 0
    assert "in progress" in table.out
    assert "more: the same with --cursor abc" in table.out
    assert server.received[0].query == {"status": "in progress", "tag": "team:ml", "limit": "2"}
    assert rota("list", "-o", "json").out == json.dumps(page) + "\n"


def test_list_all_follows_every_page(server: StubServer, rota: Rota) -> None:
    pages = ({"tasks": [task_document(7)], "next": "c"}, {"tasks": [task_document(6)], "next": None})
    server.on("GET", "/v1/tasks", *(Reply(200, page) for page in pages))
    ran = rota("list", "--all", "-o", "json")
    assert [json.loads(line) for line in ran.out.splitlines()] == list(pages)
    assert server.received[1].query["cursor"] == "c"


def test_pages_that_found_nothing_yet_are_not_taken_for_the_end(server: StubServer, rota: Rota) -> None:
    empty, last = {"tasks": [], "next": "c"}, {"tasks": [task_document(6, name="rare")], "next": None}
    none = {"tasks": [], "next": None}
    server.on("GET", "/v1/tasks", *(Reply(200, page) for page in (empty, empty, last, empty, last, none, empty)))
    assert "rare" in rota("list", "--worker", "n1").out
    found = rota("list", "--worker", "n1", "--all").out
    assert ("rare" in found, "none" in found, "no tasks" in found) == (True, False, False)
    assert rota("list", "--worker", "n1", "--all").out == "no tasks\n"
    assert rota("list", "--worker", "n1").out == "none so far\nmore: the same with --cursor c\n"


def test_show_names_the_schedule_the_graph_and_what_it_waits_for(server: StubServer, rota: Rota) -> None:
    document = task_document(
        7,
        "blocked",
        schedule="nightly",
        scheduled_for="2030-01-01T02:30:00Z",
        graph=5,
        index=3,
        after=[1, 2],
        after_end=list(range(10, 20)),
        after_failed=[4],
        retry_rules={"retry_on": ["exit=75:30s"], "fail_on": []},
    )
    server.on_document("GET", "/v1/tasks/7", document)
    shown = {line.split("  ")[0]: line.split("  ", 1)[1].strip() for line in rota("show", "7").out.splitlines()}
    assert shown["schedule"].startswith("nightly, for 20")
    assert (shown["graph"], shown["retries"]) == ("5, index 3", "only on exit=75:30s")
    assert shown["after"] == "1, 2; end of 10, 11, 12, 13, 14, 15, 16, 17 and 2 more; failure of 4"


def test_list_takes_several_states(server: StubServer, rota: Rota) -> None:
    server.on_document("GET", "/v1/tasks", {"tasks": [], "next": None})
    assert rota("list", "--state", "expired,skipped").code == 0
    assert server.received[0].query == {"state": "expired,skipped", "limit": "50"}
    ran = rota("list", "--state", "expired,skiped")
    assert (ran.code, "'skiped' is not known; did you mean skipped?" in ran.err) == (2, True)


def test_show_names_the_state_the_owner_and_the_command(server: StubServer, rota: Rota) -> None:
    server.on_document("GET", "/v1/tasks/7", task_document(7, "ready", reason="no room"))
    ran = rota("show", "7")
    for words in ("waiting", "ready", "no room", "acme/ann", "echo hi", "1.5 cpu", "512M memory"):
        assert words in ran.out


def test_show_names_the_category_the_flags_and_every_resource(server: StubServer, rota: Rota) -> None:
    room = {
        "cpu": 1,
        "memory_bytes": 10**9,
        "iops": 5000,
        "bandwidth_bits": 10**8,
        "gpus": 0.5,
        "custom": {"license": 2},
    }
    flags = {"category": "report", "preemptible": True, "unplaceable": "wait"}
    server.on_document("GET", "/v1/tasks/7", task_document(7, resources=room, **flags))
    ran = rota("show", "7")
    for words in ("report", "preemptible", "waits", "5000 disk operations/s", "100Mbit/s", "0.5 gpu", "2 license"):
        assert words in ran.out


def test_nothing_in_a_document_is_read_as_markup_or_obeyed(server: StubServer, rota: Rota) -> None:
    page = {"tasks": [task_document(7, name="[red]x[/red]\x1b]0;owned\x07")], "next": None}
    server.on_document("GET", "/v1/tasks", page)
    assert "[red]x[/red]\\x1b]0;owned\\x07" in rota("list").out


def test_attempts_are_a_table(server: StubServer, rota: Rota) -> None:
    attempt = {
        "number": 1,
        "outcome": "error",
        "node": "n1",
        "exit_code": 2,
        "run_seconds": 61.5,
        "log_bytes": 10,
    }
    server.on_document("GET", "/v1/tasks/7/attempts", {"attempts": [attempt]})
    ran = rota("attempts", "7")
    assert "1m02s" in ran.out
    assert "error" in ran.out


def test_result_prints_the_json_value(server: StubServer, rota: Rota) -> None:
    server.on_document("GET", "/v1/tasks/7", task_document(7, "done", result={"total": 3}))
    assert rota("result", "7").out == '{"total":3}\n'


@pytest.mark.parametrize(("state", "code"), [("failed", 1), ("cancelled", 1), ("running", 6)])
def test_result_of_a_task_that_is_not_done_is_an_error(server: StubServer, rota: Rota, state: str, code: int) -> None:
    server.on_document("GET", "/v1/tasks/7", task_document(7, state))
    ran = rota("result", "7")
    assert (ran.code, ran.out) == (code, "")


def test_cancel_says_what_became_of_each_task(server: StubServer, rota: Rota) -> None:
    answer = {"cancelled": [7], "cancelling": [8], "refused": [{"id": 9, "reason": "already done"}]}
    server.on_document("POST", "/v1/tasks/cancel", answer)
    ran = rota("cancel", "7", "8", "9")
    assert (ran.code, server.received[0].json) == (4, {"ids": [7, 8, 9]})
    assert "already done" in ran.out


def test_retry_prints_the_new_id(server: StubServer, rota: Rota) -> None:
    server.on_document("POST", "/v1/tasks/7/retry", {"id": 12, "retry_of": 7}, status=201)
    assert rota("retry", "7").out == "12\n"


@pytest.mark.parametrize(("state", "code"), [("done", 0), ("failed", 1)])
def test_wait_exits_by_how_the_tasks_ended(server: StubServer, rota: Rota, state: str, code: int) -> None:
    server.on_document("POST", "/v1/tasks/wait", {"ended": [ended(7, state)], "pending": 0})
    ran = rota("wait", "7")
    assert (ran.code, state in ran.out) == (code, True)


def test_wait_exits_6_when_the_time_is_up(server: StubServer, rota: Rota) -> None:
    server.on_document("POST", "/v1/tasks/wait", {"ended": [ended(7)], "pending": 1})
    ran = rota("wait", "7", "8", "--timeout", "0", "-o", "json")
    assert ran.code == 6
    assert json.loads(ran.out)["pending"] == 1
    assert "wait-timeout" in ran.err


def test_logs_are_the_tasks_bytes(server: StubServer, rota: Rota) -> None:
    head, tail = chunk(b"a\x1b[31mb", offset=0), chunk(b"end\n", seq=1, offset=1240)
    server.on("GET", "/v1/tasks/7/log", Stream((head, tail)))
    cut = [{"number": 1}, {"number": 2, "log_bytes": 1 << 20, "log_dropped_bytes": 1234}]
    server.on_document("GET", "/v1/tasks/7/attempts", {"attempts": cut})
    shown = "a\x1b[31mb\n[rota: 1,233 bytes of stdout are left out here]\nend\n"
    ran = rota("logs", "7")
    assert ran.out == shown
    assert "the beginning and the end of the output are kept, 1.05M; 1,234 bytes are left out" in ran.err
    assert rota("logs", "7", "--attempt", "1").err == ""
    assert json.loads(rota("logs", "7", "-o", "json").out) == {
        "id": 7,
        "attempt": None,
        "stream": None,
        "log": shown,
        "dropped_bytes": 1234,
        "left_out": [{"stream": "stdout", "offset": 7, "bytes": 1233}],
    }
    assert rota("logs", "7", "--attempt", "2", "--stdout").out == shown
    assert server.received[-2].query == {"attempt": "2", "stream": "stdout", "lines": "true", "limit": "50"}
    server.on("GET", "/v1/tasks/7/log", Stream((head, tail, end())))
    followed = rota("logs", "-f", "7", "-o", "json").out.splitlines()
    assert json.loads(followed[1])["left_out_bytes"] == 1233


def test_logs_of_a_graph_come_below_headings_or_behind_prefixes_and_in_pages(server: StubServer, rota: Rota) -> None:
    of = [{"task": 8 + index, "name": f"work[{index}]", "index": index} for index in range(3)]
    page = (
        chunk(b"one\ntwo", **of[0]),
        chunk(b"err\n", seq=1, stream="stderr", **of[0]),
        chunk(b"three\n", **of[1]),
        {"next": "further"},
    )
    server.on("GET", "/v1/tasks/7/log", Stream(page), Stream((chunk(b"four", **of[2]), {"next": None})))
    ran = rota("logs", "7", "--limit", "2")
    assert ran.out == "==> 8 work[0] <==\none\ntwoerr\n==> 9 work[1] <==\nthree\n"
    assert "rota logs 7 --cursor further, or --all" in ran.err
    assert rota("logs", "7", "--cursor", "further").out == "==> 10 work[2] <==\nfour\n"
    assert server.received[-1].query["cursor"] == "further"
    server.on("GET", "/v1/tasks/7/log", Stream(page), Stream((chunk(b"four", **of[2]), {"next": None})))
    first, second = map(json.loads, rota("logs", "7", "--all", "-o", "json").out.splitlines())
    assert [(one["id"], one["index"], one["log"]) for one in first["tasks"]] == [
        (8, 0, "one\ntwoerr\n"),
        (9, 1, "three\n"),
    ]
    assert (second["tasks"][0]["log"], first["next"], second["next"]) == ("four", "further", None)
    live = (*page[:3], end() | {"task": 8}, chunk(b" and a half\n", seq=1, **of[1]), end() | {"task": 9})
    server.on("GET", "/v1/tasks/7/log", Stream((*live, {"end": True, "graph": 7, "state": "done"})))
    assert sorted(rota("logs", "-f", "7").out.splitlines()) == [
        "8 work[0] | err", "8 work[0] | one", "8 work[0] | two", "9 work[1] |  and a half", "9 work[1] | three",
    ]  # fmt: skip


def test_logs_of_an_attempt_there_never_was_are_not_an_empty_log(server: StubServer, rota: Rota) -> None:
    server.on("GET", "/v1/tasks/7/log", Stream(()))
    server.on_document("GET", "/v1/tasks/7", task_document(7, "done", attempt=1))
    server.on_document("GET", "/v1/tasks/7/attempts", {"attempts": [{"number": 1}]})
    ran = rota("logs", "7", "--attempt", "2")
    assert (ran.code, "task 7 has had no attempt 2" in ran.err) == (2, True)
    assert rota("logs", "7", "--attempt", "1").code == 0


def test_run_shows_what_a_function_returns(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    server.on("GET", "/v1/tasks/7/log", Stream((chunk(b"adding\n"), end("done", None))))
    server.on_document("GET", "/v1/tasks/7", task_document(7, "done", result={"sum": 5}))
    assert rota("run", "--function", "a:add", "--args", "[2, 3]").out == 'adding\n{"sum":5}\n'


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ([], "rota: task 7 kept no file\n"),
        (["a"], "rota: task 7 kept 1 file: rota outputs 7 --download FOLDER\n"),
        (["a", "b"], "rota: task 7 kept 2 files: rota outputs 7 --download FOLDER\n"),
    ],
)
def test_run_says_where_the_files_are_that_the_task_kept(
    server: StubServer, rota: Rota, kept: list[str], said: str
) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    server.on("GET", "/v1/tasks/7/log", Stream((end("done", 0),)))
    outputs = [{"name": name, "artifact": "sha256:00"} for name in kept]
    server.on_document("GET", "/v1/tasks/7", task_document(7, "done", outputs=outputs))
    ran = rota("run", "--keep", "*", "--", "job")
    assert (ran.code, ran.out, ran.err) == (0, "", said)


def test_logs_can_be_followed_and_filtered(server: StubServer, rota: Rota) -> None:
    lines = (chunk(b"out\n"), chunk(b"err\n", seq=1, stream="stderr"), end())
    server.on("GET", "/v1/tasks/7/log", Stream(lines))
    assert rota("logs", "-f", "7").out == "out\nerr\n"
    assert rota("logs", "-f", "7", "--stderr").out == "err\n"
    assert [json.loads(line) for line in rota("logs", "-f", "7", "-o", "json").out.splitlines()] == list(lines)


MAIL = """
import rota

print("imported")

@rota.task(cap="30s", attempts=3, tags={"team": "shop", "kind": "mail"}, delay="1h")
def send(to): ...

def plain(to): ...

class Box:
    @staticmethod
    @rota.task(priority=4)
    def post(): ...
"""


@pytest.fixture
def mail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module in the current folder; its name."""
    name = f"mail_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MAIL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    sys.modules.pop(name, None)


def test_a_function_is_submitted_with_the_options_of_its_task_and_the_command_line_comes_first(
    server: StubServer, rota: Rota, mail: str
) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    own = {"cap": "30s", "attempts": 3, "tags": {"team": "shop", "kind": "mail"}, "delay": "1h"}
    assert rota("submit", "--function", f"{mail}:send").out == "7\n"
    assert server.received[0].json == {"function": f"{mail}:send", **own}
    rota("submit", "--function", f"{mail}:send", "--cap", "2m", "--tag", "team=ml", "--at", "2030-01-01T00:00:00Z")
    own |= {"cap": "2m", "tags": {"team": "ml", "kind": "mail"}, "at": "2030-01-01T00:00:00+00:00"}
    assert server.received[1].json == {"function": f"{mail}:send", **{k: v for k, v in own.items() if k != "delay"}}
    rota("submit", "--function", f"{mail}:plain")
    assert server.received[2].json == {"function": f"{mail}:plain"}
    rota("submit", "--function", f"{mail}:Box.post")
    assert server.received[3].json == {"function": f"{mail}:Box.post", "priority": 4}


def test_a_function_that_only_the_workers_have_is_submitted_with_a_note(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/tasks", SUBMITTED)
    ran = rota("submit", "--function", "nowhere_at_all.mail:send")
    assert (ran.code, ran.out) == (0, "7\n")
    why = "ModuleNotFoundError: No module named 'nowhere_at_all'"
    assert ran.err == (
        f"rota: nowhere_at_all.mail:send can't be imported here ({why}), so options of its @task are not used\n"
    )
