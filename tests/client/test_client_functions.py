"""@task: a function stays callable here and can be submitted, one by one or many in one request."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import rota
from rota import Client, task
from tests.client.stub_server import Reply, StubServer


@task(cap="30s", attempts=3)
def add(left: int, right: int = 1) -> int:
    """Adds."""
    return left + right


@task
def whole(value: object) -> object:
    return value


@task()
async def fetch(url: str) -> str:
    return url.upper()


def test_a_task_function_is_still_the_function() -> None:
    assert add(2, right=3) == 5
    assert add.__name__ == "add"
    assert add.__doc__ == "Adds."
    assert add.__rota_function__(2) == 3
    assert list(inspect.signature(add).parameters) == ["left", "right"]


async def test_an_async_task_function_is_still_awaitable() -> None:
    assert await fetch("a") == "A"


def test_submit_sends_the_functions_path_and_arguments(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks", Reply(201, {"id": 7, "state": "ready", "created": True}))
    assert add.using(client).submit(2, right=3).id == 7
    assert server.received[0].json == {
        "function": "tests.client.test_client_functions:add",
        "args": [2],
        "kwargs": {"right": 3},
        "cap": "30s",
        "attempts": 3,
    }


@task(cpu=2, cpu_limit="quota")
def measured() -> None: ...


def test_a_function_may_choose_how_its_cpu_is_held(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks", Reply(201, {"id": 7, "state": "ready", "created": True}))
    measured.using(client).submit()
    assert (server.received[0].json["cpu"], server.received[0].json["cpu_limit"]) == (2, "quota")


def test_map_is_one_request_with_one_task_per_item(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks/batch", Reply(201, {"ids": [7, 8, 9], "replayed": []}))
    handles = whole.using(client).map([1, 2, (3, 4)])
    assert [handle.id for handle in handles] == [7, 8, 9]
    assert len(server.received) == 1
    assert [one["args"] for one in server.received[0].json["tasks"]] == [[1], [2], [[3, 4]]]


def test_starmap_spreads_each_item_over_the_arguments(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks/batch", Reply(201, {"ids": [7, 8], "replayed": []}))
    add.using(client).starmap([(1, 2), (3, 4)])
    assert [one["args"] for one in server.received[0].json["tasks"]] == [[1, 2], [3, 4]]


def test_options_changes_what_is_named_and_keeps_the_rest(server: StubServer, client: Client) -> None:
    server.on("POST", "/v1/tasks", Reply(201, {"id": 7, "state": "ready", "created": True}))
    add.options(attempts=1, name="sum").using(client).submit(1)
    assert server.received[0].json["cap"] == "30s"
    assert server.received[0].json["name"] == "sum"


def test_a_function_inside_a_function_cannot_be_a_task_elsewhere() -> None:
    @task()
    def inner() -> None: ...

    with pytest.raises(ValueError, match="top of a module"):
        inner.spec()


def test_the_decorator_needs_no_parentheses_without_options() -> None:
    @task
    def double(number: int) -> int:
        return 2 * number

    assert double(4) == 8
    assert double.__name__ == "double"


@pytest.mark.parametrize("how", ["file", "module"])
def test_a_function_of_the_main_program_is_named_by_its_module(tmp_path: Path, how: str) -> None:
    (tmp_path / "job.py").write_text("from rota import task\n@task()\ndef f(): ...\nprint(f.spec()['function'])\n")
    arguments = ["job.py"] if how == "file" else ["-m", "job"]
    ran = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "job:f\n"


def test_a_function_typed_into_a_shell_is_refused_with_the_way_out() -> None:
    program = "from rota import task\n@task()\ndef f(): ...\nf.spec()"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "move it into a module" in ran.stderr


def test_importing_rota_and_task_functions_imports_no_http() -> None:
    program = "import sys, rota; from rota import task; print('httpx' in sys.modules, 'asyncio' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "False False\n"


def test_type_checkers_and_programs_find_the_same_public_names() -> None:
    [block] = [node for node in ast.parse(inspect.getsource(rota)).body if isinstance(node, ast.If)]
    exported = {
        name.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names
    }
    assert exported == rota._HOMES
    assert all(getattr(rota, name) is not None for name in rota.__all__)
