"""`rota graph`: the drawing, the picture, and changes of a whole graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.cli.conftest import Rota
from tests.client.stub_server import Reply, StubServer, problem


def _task(number: int, name: str, state: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "state": state, **more}


def _graph(*tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": 7,
        "name": "etl",
        "status": "in progress",
        "size": len(tasks),
        "counts": {"done": 1},
        "tasks": tasks,
        "created_at": "2030-01-01T00:00:00Z",
        "critical_path": [{"id": 8, "name": "extract", "waited_seconds": 0.1, "run_seconds": 2.5}],
        **more,
    }


ETL = _graph(
    _task(8, "extract", "done", run_seconds=2.5, started_at="2030-01-01T00:00:00Z"),
    _task(9, "load", "blocked", after=[8], after_end=[8]),
    _task(10, "<alarm>", "blocked", after_failed=[9], reason="not yet"),
    _task(11, "extra", "ready", parent=8),
)


def test_show_draws_tasks_under_their_parents_with_states(server: StubServer, rota: Rota) -> None:
    server.on("GET", "/v1/graphs/7", Reply(200, ETL))
    ran = rota("graph", "show", "7")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].startswith("etl (7)  in progress  ███░░░░░░░░░ 1/4")
    drawn = [line.split("  ")[0] if not line.startswith(" ") else line.rstrip() for line in lines if "✔" in line]
    assert drawn == ["✔ extract"]
    by_name = {name: line for line in lines for name in ("load", "<alarm>", "extra") if f" {name} " in line[:16]}
    assert by_name["load"].startswith("  · load")
    assert "extract; end of extract" in by_name["load"]
    assert by_name["<alarm>"].startswith("    · <alarm>")
    assert "failure of load" in by_name["<alarm>"]
    assert "by extract" in by_name["extra"]
    assert lines[-1] == "longest path: extract 2.5s"


def test_many_that_look_alike_are_drawn_as_a_few_and_a_count(server: StubServer, rota: Rota) -> None:
    leaves = [_task(100 + number, f"leaf-{number}", "blocked", after=[8]) for number in range(500)]
    server.on("GET", "/v1/graphs/7", Reply(200, _graph(_task(8, "root", "running"), *leaves)))
    out = rota("graph", "show", "7").out
    assert len(out.splitlines()) < 12
    assert "… and 497 more" in out


def test_watching_ends_when_the_graph_has(server: StubServer, rota: Rota) -> None:
    server.on("GET", "/v1/graphs/7", Reply(200, _graph(_task(8, "a", "done"), status="done")))
    ran = rota("graph", "show", "7", "--watch")
    assert (ran.code, ran.out.count("etl (7)")) == (0, 1)


def test_a_picture_is_one_well_formed_file(server: StubServer, rota: Rota, tmp_path: Path) -> None:
    server.on("GET", "/v1/graphs/7", Reply(200, ETL))
    file = tmp_path / "etl.svg"
    assert rota("graph", "show", "7", "--svg", str(file)).code == 0
    tree = ElementTree.fromstring(file.read_text())
    texts = [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "<alarm>" in texts
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}path"))) == 4
    missing = rota("graph", "show", "7", "--svg", str(tmp_path / "no" / "etl.svg"))
    assert missing.code == 2
    assert "can't be written" in missing.err


def test_list_shows_a_bar_and_what_failed(server: StubServer, rota: Rota) -> None:
    listed = {**_graph(status="failed"), "tasks": [], "size": 4, "counts": {"done": 1, "failed": 1, "cancelled": 2}}
    server.on("GET", "/v1/graphs", Reply(200, {"graphs": [listed], "next": "abc"}))
    ran = rota("graph", "list", "--name", "etl")
    assert "████████████ 4/4" in ran.out
    assert ran.out.endswith("more: the same with --cursor abc\n")
    assert server.asked("GET", "/v1/graphs")[0].query["name"] == "etl"


def test_cancel_retry_and_rerun_say_what_they_did(server: StubServer, rota: Rota) -> None:
    server.on("POST", "/v1/graphs/7/cancel", Reply(200, {"id": 7, "cancelled": [8, 9], "cancelling": [10]}))
    server.on("POST", "/v1/graphs/7/retry", Reply(201, {"id": 7, "tasks": {"load": 21, "alarm": 22}}))
    server.on("POST", "/v1/graphs/7/rerun", Reply(201, {"id": 30, "rerun_of": 7, "tasks": {"load": 31}}))
    assert rota("graph", "cancel", "7").out == "cancelled 2, stopping 1\n"
    assert rota("graph", "retry", "7").out == "load   21\nalarm  22\n"
    assert rota("graph", "rerun", "7").out == "30\n"


def test_hold_and_release_take_tasks_and_graphs(server: StubServer, rota: Rota) -> None:
    unknown = [{"id": 7, "reason": "unknown"}, {"id": 9, "reason": "unknown"}, {"id": 12, "reason": "unknown"}]
    server.on("POST", "/v1/tasks/hold", Reply(200, {"held": [3], "refused": unknown}))
    server.on("POST", "/v1/tasks/release", Reply(200, {"released": [3], "refused": unknown[:1]}))
    server.on("POST", "/v1/graphs/7/hold", Reply(200, {"id": 7, "held": [8, 10], "running": [11]}))
    server.on("POST", "/v1/graphs/7/release", Reply(200, {"id": 7, "released": [8, 10]}))
    server.on("POST", "/v1/graphs/9/hold", problem(404, "not-found", "there is no such graph"))
    server.on("POST", "/v1/graphs/12/hold", problem(409, "already-terminal", "graph 12 has ended already"))
    ran = rota("hold", "3", "7", "9", "12", "--reason", "later")
    assert [line.split("  ") for line in ran.out.splitlines()[1:]] == [
        [" 3", "held", "", " –"],
        [" 7", "held 2", " 1 of its tasks run"],
        [" 9", "refused", "unknown"],
        ["12", "refused", "ended"],
    ]
    assert ran.code == 4
    assert server.asked("POST", "/v1/graphs/7/hold")[0].json == {"reason": "later"}
    ran = rota("release", "3", "7")
    assert (ran.code, "7  released 2" in ran.out) == (0, True)


def test_an_id_of_a_graph_is_run_again_whole_or_told_apart(server: StubServer, rota: Rota) -> None:
    for verb in ("retry", "why", "pause"):
        server.on("POST", f"/v1/tasks/7/{verb}", problem(404, "not-found", "there is no such task"))
    server.on("GET", "/v1/tasks/7/why", problem(404, "not-found", "there is no such task"))
    server.on("GET", "/v1/graphs/7", Reply(200, {**ETL, "array": True}))
    server.on("POST", "/v1/graphs/7/retry", Reply(201, {"id": 7, "tasks": {"load": 21}}))
    assert rota("retry", "7").out == "load  21\n"
    for verb in ("why", "pause"):
        ran = rota(verb, "7")
        assert (ran.code, ran.err) == (3, "rota: 7 is an array, not a task; rota graph show 7 names its tasks\n")
