"""A running task that may submit: it asks for it, and needs no token."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rota import Client
from rota.client.options import TaskSpec

Rota = Callable[..., subprocess.CompletedProcess[str]]
SUBMIT = f"{sys.executable} -m rota.cli submit"


def test_a_command_submits_and_its_graph_is_waited_for_to_the_end(client: Client, rota: Rota, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    later = f"while [ ! -e {gate} ]; do sleep 0.05; done; {SUBMIT} --name later -- true"
    task = client.submit(["sh", "-c", f"{SUBMIT} --name early -- true; {later}"], name="fan", may_submit=True)
    gate.touch()
    waited = rota("wait", str(task.id), "--timeout", "60")
    assert (waited.returncode, waited.stderr) == (0, "")
    assert [line.split()[1] for line in waited.stdout.splitlines()[1:]].count("done") == 3, waited.stdout
    document = task.document()
    assert (document.state, document.own_graph) == ("done", document.graph)
    graph = client.graphs.get(task.id)
    assert graph.id == document.graph
    assert [(one.name, one.parent, one.state) for one in graph.tasks] == [
        ("fan", None, "done"),
        ("early", task.id, "done"),
        ("later", task.id, "done"),
    ]
    shown = rota("show", str(task.id)).stdout
    assert "may submit" in shown
    assert "✔ later" in shown
    assert "by fan" in shown
    listed = rota("list", "--graph", str(graph.id)).stdout
    assert "early" in listed
    assert "later" in listed


def test_the_exit_code_is_that_of_the_whole(rota: Rota, tmp_path: Path) -> None:
    script = tmp_path / "fan.sh"
    script.write_text(f"#!/bin/sh\n{SUBMIT} -- false\n")
    ran = rota("run", "--may-submit", "--name", "whole", "--", "sh", "-c", f"{SUBMIT} -- false; echo mine")
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (1, "mine"), ran
    assert "1 of 2 are done (rota graph show " in ran.stderr
    number = ran.stderr.split()[2].rstrip(":")
    submitted = rota("submit", "--wait", "--may-submit", "--script", str(script))
    assert submitted.returncode == 1, submitted
    first = submitted.stdout.strip()
    assert rota("wait", first).returncode == 1
    assert rota("graph", "show", number).returncode == 0


def test_a_function_and_what_it_starts_submit(client: Client) -> None:
    from submitting_tasks import total

    handle = total.submit(3)
    assert handle.result(timeout=60) == 6
    graph = client.graphs.wait(handle.id, timeout=60)
    assert (graph.size, graph.counts["done"]) == (4, 4)
    for name in ("by_client", "by_program"):
        task = client.submit(function=f"submitting_tasks:{name}", may_submit=True)
        assert task.result(timeout=60)
        task.wait(timeout=60)
        assert [one.name for one in client.graphs.get(task.id).tasks] == [name, "kid"]


def test_arrays_and_graphs_of_a_running_task_are_graphs_within_its_own(client: Client) -> None:
    task = client.submit(function="submitting_tasks:groups", may_submit=True)
    found = task.result(timeout=60)
    assert (found["results"], found["graph"]) == ([2, 4, 6], "done")
    whole = client.graphs.wait(task.id, timeout=60)
    assert [one.name for one in whole.tasks] == [
        "groups",
        *(f"double[{index}]" for index in range(3)),
        "first",
        "second",
    ]
    assert {one.parent for one in whole.tasks[1:]} == {task.id}
    assert client.graphs.get(found["id"]).size == 2


def test_async_functions_in_one_process_each_have_a_key_of_their_own(client: Client) -> None:
    call: TaskSpec = {"function": "submitting_tasks:one_of_many", "may_submit": True}
    for _ in range(2):  # from now on it is known that the function mostly waits
        client.submit(**call).result(timeout=60)
    tasks = client.submit_many([call for _ in range(30)])
    found = [task.result(timeout=60) for task in tasks]
    assert max(together for together, *_ in found) > 1
    for task, (together, own, kid, in_environment) in zip(tasks, found, strict=True):
        assert own == task.id
        assert not (in_environment and together > 1), "variables belong to the whole process"
        assert client.get(kid).name == f"kid of {task.id}"
        assert [(one.id, one.parent) for one in client.graphs.get(task.id).tasks] == [(task.id, None), (kid, task.id)]


def test_grandchildren_belong_to_the_graph_and_are_waited_for(client: Client, rota: Rota) -> None:
    task = client.submit(function="submitting_tasks:generations", args=[3], may_submit=True)
    assert task.wait(timeout=60).result == 3
    graph = client.graphs.get(task.id)
    assert (graph.status, graph.size) == ("done", 4)
    submitters = [one.parent for one in graph.tasks]
    assert submitters == [None, *(one.id for one in graph.tasks[:-1])]
    assert client.get(graph.tasks[-1].id).own_graph is None
    assert rota("wait", str(task.id)).returncode == 0


def test_a_sandboxed_task_without_a_network_submits_through_its_socket(stranger: Client) -> None:
    talk = """
import http.client, json, os, socket
class Here(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["ROTA_SERVER"].removeprefix("http+unix:"))
here = Here("rota")
headers = {"Authorization": "Bearer " + os.environ["ROTA_TOKEN"], "Content-Type": "application/json"}
here.request("POST", "/v1/tasks", json.dumps({"command": ["true"], "name": "kid"}), headers)
answer = here.getresponse()
print(answer.status, json.loads(answer.read())["created"])
"""
    task = stranger.submit(["python3", "-c", talk], may_submit=True, name="walled")
    assert task.wait(timeout=60).state == "done", task.log()
    assert task.log() == "201 True\n"
    assert [one.name for one in stranger.graphs.get(task.id).tasks] == ["walled", "kid"]


def test_a_sandboxed_function_submits_through_the_socket_of_its_process(stranger: Client) -> None:
    for _ in range(2):
        task = stranger.submit(function="submitting_tasks:by_client", may_submit=True)
        assert task.result(timeout=60)
        assert [one.name for one in stranger.graphs.wait(task.id, timeout=60).tasks] == ["by_client", "kid"]
    assert stranger.submit(function="submitting_tasks:look").result(timeout=60) == {
        "key": None,
        "server": "",
        "token": False,
    }
