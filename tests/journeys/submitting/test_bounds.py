"""What the key of a running task may not do, and when it ends. Each test plays the task: it takes the key from a file."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.harness.cluster import Cluster
from tests.journeys.submitting.conftest import LIMIT, eventually

from rota import Client
from rota.admit.open_connections import LOOK_SECONDS
from rota.client._sync.handle import TaskHandle

Rota = Callable[..., subprocess.CompletedProcess[str]]
HOLD = 'printf %s "$ROTA_TOKEN" > "$1/key.new"; mv "$1/key.new" "$1/key"; while [ ! -e "$1/go" ]; do sleep 0.05; done'


FORBIDDEN = "https://rota.dev/problems/forbidden"


class Keyed:
    """A running task, and requests with its key."""

    def __init__(self, cluster: Cluster, client: Client, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.task: TaskHandle = client.submit(
            ["sh", "-c", HOLD, "sh", str(folder)], may_submit=True, name="keyed", **options
        )
        eventually((folder / "key").exists)
        self.key = (folder / "key").read_text()
        self.graph = self.task.document().own_graph
        headers = {"authorization": f"Bearer {self.key}"}
        self.http = httpx.Client(base_url=cluster.urls[1], headers=headers, timeout=30, trust_env=False)

    def submit(self, **fields: Any) -> httpx.Response:
        return self.http.post("/v1/tasks", json={"command": ["true"], **fields})

    def end(self) -> None:
        (self.folder / "go").touch()


@pytest.fixture
def keyed(cluster: Cluster, client: Client, tmp_path: Path) -> Iterator[Keyed]:
    made = Keyed(cluster, client, tmp_path)
    yield made
    made.end()
    made.http.close()


def test_a_key_reads_and_cancels_what_is_in_its_graph_and_nothing_else(keyed: Keyed, client: Client) -> None:
    other = client.submit(["sleep", "60"]).id
    graph = client.map("submitting_tasks:double", [1]).id
    kid = keyed.submit(delay="1h").json()["id"]
    http = keyed.http
    for own in (kid, keyed.task.id):
        assert http.get(f"/v1/tasks/{own}").status_code == 200
        assert http.get(f"/v1/tasks/{own}/log").status_code == 200
        assert http.get(f"/v1/tasks/{own}/attempts").status_code == 200
        assert http.get(f"/v1/tasks/{own}/results").status_code == 200
    assert http.get(f"/v1/graphs/{keyed.graph}").json()["size"] == 2
    assert http.get(f"/v1/graphs/{keyed.task.id}").json()["id"] == keyed.graph
    assert http.post("/v1/once", json={"key": f"by {kid}", "result": 1}).status_code == 201
    unknown = 2**62
    for number in (other, graph, unknown):
        answers = [
            http.get(f"/v1/tasks/{number}"),
            http.get(f"/v1/tasks/{number}/log"),
            http.get(f"/v1/tasks/{number}/attempts"),
            http.get(f"/v1/tasks/{number}/results"),
            http.post(f"/v1/tasks/{number}/cancel"),
            http.post("/v1/tasks/cancel", json={"ids": [kid, number]}),
            http.post("/v1/tasks/wait", json={"ids": [number], "timeout": 0}),
        ]
        assert {answer.status_code for answer in answers} == {403}
        assert f"{number} is not in graph {keyed.graph}" in answers[0].json()["detail"]
    # A graph of others is answered as its tasks are; one that is nobody's has no tasks to speak of.
    assert http.get(f"/v1/graphs/{graph}").status_code == 403
    assert client.get(other).state in ("ready", "running")
    assert http.post(f"/v1/tasks/{kid}/cancel").json()["state"] == "cancelled"
    client.cancel(other)


def test_every_other_request_is_refused_with_what_the_key_may_do(keyed: Keyed) -> None:
    own = keyed.task.id
    requests = [
        ("GET", "/v1/tasks"),
        ("GET", "/v1/me"),
        ("GET", "/v1/secrets"),
        ("PUT", "/v1/secrets/MINE"),
        ("GET", "/v1/tokens"),
        ("POST", "/v1/tokens"),
        ("GET", "/v1/schedules"),
        ("POST", "/v1/schedules"),
        ("GET", "/v1/nodes"),
        ("GET", "/v1/events"),
        ("GET", "/v1/dead"),
        ("GET", "/v1/graphs"),
        ("POST", "/v1/artifacts"),
        ("POST", "/v1/tasks/preview"),
        ("POST", f"/v1/tasks/{own}/extend"),
        ("POST", f"/v1/tasks/{own}/hold"),
        ("POST", f"/v1/tasks/{own}/retry"),
        ("POST", f"/v1/graphs/{keyed.graph}/rerun"),
        ("GET", "/v1/worker/leader?pool=default"),
        ("POST", "/v1/tenants"),
    ]
    for method, path in requests:
        answer = keyed.http.request(method, path, json={} if method != "GET" else None)
        assert (answer.status_code, answer.json()["type"]) == (403, FORBIDDEN), (method, path, answer.text)
        assert answer.json()["detail"].startswith("the key of a running task may submit tasks, arrays and graphs")


def test_a_key_says_what_it_is_good_for(keyed: Keyed) -> None:
    found = keyed.http.get("/v1/whoami").json()
    assert (found["kind"], found["credential"]) == ("task", f"task {keyed.task.id}")
    assert found["graph"] == keyed.graph
    assert found["scopes"] == ["logs:read", "results:read", "tasks:control", "tasks:read", "tasks:submit"]


def test_lists_and_changes_by_filter_take_the_id_of_the_task_for_its_graph(keyed: Keyed, client: Client) -> None:
    kid = keyed.submit(delay="1h").json()["id"]
    assert {one.id for one in client.list(graph=keyed.task.id).tasks} == {keyed.task.id, kid}
    assert client.operations.preview("hold", graph=keyed.task.id).ids == [kid]
    assert client.operations.start("cancel", graph=keyed.task.id, state="delayed").wait().changed == 1
    assert client.get(kid).state == "cancelled"


def test_what_it_submits_names_no_more_than_the_task_itself(keyed: Keyed, client: Client) -> None:
    client.secrets.set("NOT_ITS_OWN", "a value for others")
    outside = client.submit(["true"]).id
    for name in ("NOT_ITS_OWN", "NOBODYS"):
        answer = keyed.submit(secrets=[name])
        assert answer.status_code == 422, answer.text
        assert f"the secret {name} is not one of task {keyed.task.id}" in answer.json()["detail"]
    answer = keyed.submit(after_end=[outside])
    assert f"task {outside} is not in graph {keyed.graph}" in answer.json()["detail"]
    first = keyed.submit().json()["id"]
    assert keyed.submit(after=[first]).status_code == 201
    answer = keyed.submit(upload="sha256:" + "0" * 8)
    assert "names the whole digest" in answer.json()["detail"]
    document = client.get(first)
    assert (document.tenant, document.user) == (keyed.task.document().tenant, keyed.task.document().user)


def test_what_an_isolated_task_submits_is_isolated(client: Client) -> None:
    """Also for a tenant that is trusted: it chose the sandbox for this code."""
    talk = """
import http.client, json, os, socket
here = http.client.HTTPConnection("rota")
here.sock = socket.socket(socket.AF_UNIX)
here.sock.connect(os.environ["ROTA_SERVER"].removeprefix("http+unix:"))
headers = {"Authorization": "Bearer " + os.environ["ROTA_TOKEN"], "Content-Type": "application/json"}
for more in ({"isolation": "none"}, {}):
    here.request("POST", "/v1/tasks", json.dumps({"command": ["true"], **more}), headers)
    answer = here.getresponse()
    print(answer.status, answer.read().decode())
"""
    task = client.submit(["python3", "-c", talk], may_submit=True, isolation="sandbox")
    assert task.wait(timeout=60).state == "done", task.log()
    refused, accepted = task.log().splitlines()
    assert refused.startswith("422 ")
    assert "isolation none is for tenants that an operator trusts" in refused
    kid = json.loads(accepted.removeprefix("201 "))["id"]
    assert client.get(kid).spec["isolation"] == "sandbox"


def test_a_graph_takes_a_bounded_number_of_tasks(keyed: Keyed) -> None:
    batch = {"tasks": [{"command": ["true"]} for _ in range(LIMIT - 1)]}
    assert keyed.http.post("/v1/tasks/batch", json=batch).status_code == 201
    answer = keyed.http.post("/v1/tasks", json={"command": ["true"], "array": "0-1"})
    assert answer.status_code == 422
    assert f"running tasks may submit {LIMIT} tasks into one graph" in answer.json()["detail"]
    assert keyed.submit().status_code == 201
    assert keyed.submit().status_code == 422


def test_tasks_that_submit_themselves_again_and_again_come_to_an_end(client: Client) -> None:
    task = client.submit(function="submitting_tasks:bomb", may_submit=True)
    graph = client.graphs.wait(task.id, timeout=90)
    assert graph.size == LIMIT + 1


def test_a_key_ends_with_its_attempt(keyed: Keyed) -> None:
    assert keyed.submit().status_code == 201
    keyed.end()
    keyed.task.wait(timeout=60)
    refused = eventually(lambda: (answer := keyed.submit()).status_code == 401 and answer)
    assert refused.json()["detail"].startswith(f"this is the key of attempt 1 of task {keyed.task.id}, which has ended")
    forged = f"{keyed.key[:-1]}{'A' if keyed.key[-1] != 'A' else 'B'}"
    for text in (forged, keyed.key.replace("_1_", "_2_"), "rota_attempt_1_1_x"):
        answer = keyed.http.get(f"/v1/tasks/{keyed.task.id}", headers={"authorization": f"Bearer {text}"})
        assert answer.status_code == 401, text


def test_a_graph_whose_tasks_have_all_ended_takes_nothing_more(keyed: Keyed, client: Client) -> None:
    """Also while the key is still remembered: the transaction that stores a task asks once more."""
    assert keyed.submit(delay="1h").status_code == 201
    keyed.end()
    while (answer := keyed.submit(delay="1h")).status_code == 201:
        running = client.get(keyed.task.id).state
    assert answer.status_code == 401
    ended_at = client.get(keyed.task.id).ended_at
    assert ended_at is not None
    assert running
    assert all(client.get(one.id).created_at <= ended_at for one in client.graphs.get(keyed.task.id).tasks)
    client.graphs.cancel(keyed.task.id)


def test_cancelling_the_task_cancels_what_it_submitted(keyed: Keyed, client: Client, rota: Rota) -> None:
    waiting = keyed.submit(delay="1h").json()["id"]
    running = keyed.submit(command=["sleep", "60"]).json()["id"]
    eventually(lambda: client.get(running).state == "running")
    assert rota("cancel", str(keyed.task.id)).returncode == 0
    graph = client.graphs.wait(keyed.task.id, timeout=60)
    assert [one.state for one in graph.tasks] == ["cancelled"] * 3
    assert client.get(waiting).state == "cancelled"
    assert keyed.submit().status_code == 401


def test_what_is_left_after_the_end_of_the_task_is_cancelled_by_its_id(keyed: Keyed, client: Client) -> None:
    waiting = keyed.submit(delay="1h").json()["id"]
    keyed.end()
    assert keyed.task.result(timeout=60) is None
    answer = keyed.task.cancel()
    assert (answer.state, client.get(waiting).state) == ("done", "cancelled")
    assert client.graphs.get(keyed.task.id).status == "cancelled"


def test_a_retry_runs_in_the_same_graph_and_submits_anew(client: Client, rota: Rota, tmp_path: Path) -> None:
    door = tmp_path / "door"
    words = f"{sys.executable} -m rota.cli submit --name kid -- test -e {door}; test -e {door}"
    task = client.submit(["sh", "-c", words], name="tries", may_submit=True)
    graph = client.graphs.wait(task.id, timeout=60)
    assert [one.state for one in graph.tasks] == ["failed", "failed"]
    door.touch()
    assert list(client.graphs.retry(graph.id).tasks) == ["tries"], "the kid is submitted again by its task"
    after = client.graphs.wait(graph.id, timeout=60)
    again = after.tasks[0]
    assert (again.name, again.state, again.retry_of) == ("tries", "done", task.id)
    assert [(one.name, one.state) for one in after.tasks if one.parent == again.id] == [("kid", "done")]
    assert client.graphs.get(again.id).id == graph.id
    rerun = client.graphs.rerun(graph.id)
    assert client.graphs.wait(rerun.id, timeout=60).status == "done"


def test_a_tasks_own_address_or_token_is_refused(client: Client, rota: Rota) -> None:
    refused = rota("submit", "--may-submit", "--env", "ROTA_SERVER=http://elsewhere", "--secret", "ROTA_TOKEN", "true")
    assert refused.returncode == 4
    assert "a task with may_submit is given ROTA_SERVER; leave it out of env, or leave out may_submit" in refused.stderr
    assert "a task with may_submit is given ROTA_TOKEN; leave out the secret" in refused.stderr


def test_a_key_is_masked_in_output_results_and_failures(client: Client) -> None:
    shell = client.submit(
        ["sh", "-c", 'echo "$ROTA_TOKEN"; echo "{\\"k\\": \\"$ROTA_TOKEN\\"}" > "$ROTA_RESULT"'], may_submit=True
    )
    assert shell.wait(timeout=60).result == {"k": "***"}
    assert shell.log() == "***\n"
    function = client.submit(function="submitting_tasks:tell_key", may_submit=True)
    ended = function.wait(timeout=60)
    assert ended.failure is not None
    assert ended.failure.message == "it was ***"
    assert "rota_attempt" not in ended.failure.traceback
    assert function.log() == "the key is ***\n"


def test_a_task_that_asks_for_nothing_gets_nothing(client: Client) -> None:
    assert client.submit(function="submitting_tasks:look").result(timeout=60) == {
        "key": None,
        "server": "",
        "token": False,
    }
    task = client.submit(["true"]).wait(timeout=60)
    assert (task.graph, task.own_graph, task.spec) == (None, None, {"command": ["true"]})


def test_a_log_that_is_followed_with_a_key_stays_open_until_the_attempt_ends(keyed: Keyed, tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f'while [ ! -e "{told}" ]; do sleep 0.05; done; echo heard; sleep 600'
    child = keyed.submit(command=["sh", "-c", script]).json()["id"]
    later = threading.Timer(3 * LOOK_SECONDS, told.touch)  # by then the credentials of open connections were looked at
    later.start()
    with keyed.http.stream("GET", f"/v1/tasks/{child}/log", params={"follow": "true"}) as stream:
        chunks = (json.loads(line) for line in stream.iter_lines() if line)
        assert any("heard" in b64decode(chunk.get("data_base64", "")).decode() for chunk in chunks)
        keyed.end()
        assert [chunk for chunk in chunks if "data_base64" in chunk] == []  # it ends, although the child still runs
    later.join()
