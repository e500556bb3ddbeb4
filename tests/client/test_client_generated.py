"""The async and the blocking client offer the same: the second is generated from the first."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rota.client._async

MODULES = [module.name for module in pkgutil.iter_modules(rota.client._async.__path__)]
UNASYNC = Path(__file__).parents[2] / "scripts" / "unasync"


def test_the_blocking_client_is_what_the_script_writes() -> None:
    ran = subprocess.run([sys.executable, str(UNASYNC), "--check"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_an_edited_blocking_client_fails_the_check_until_it_is_written_again(tmp_path: Path) -> None:
    root = UNASYNC.parents[1]
    shutil.copytree(root / "src" / "rota" / "client", tmp_path / "src" / "rota" / "client")
    (tmp_path / "src" / "rota" / "__init__.py").touch()
    script = tmp_path / "scripts" / "unasync"
    script.parent.mkdir()
    shutil.copy(UNASYNC, script)
    shutil.copy(root / "pyproject.toml", tmp_path)
    edited = tmp_path / "src" / "rota" / "client" / "_sync" / "secrets.py"
    edited.write_text(edited.read_text().replace("def set(", "def put("))
    (edited.parent / "stale.py").touch()
    checked = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    message = "client/_sync differs from client/_async (secrets.py, stale.py): run `make format`\n"
    assert (checked.returncode, checked.stderr) == (1, message)
    subprocess.run([sys.executable, str(script)], check=True)
    subprocess.run([sys.executable, str(script), "--check"], check=True)


def test_the_blocking_client_imports_no_asyncio() -> None:
    program = "import sys; from rota import Client; print('asyncio' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


@pytest.mark.parametrize("module", MODULES)
def test_both_clients_have_the_same_methods_parameters_and_docstrings(module: str) -> None:
    awaited, blocking = _classes("_async", module), _classes("_sync", module)
    assert awaited.keys() == blocking.keys()
    for name in awaited:
        assert _described(awaited[name]) == _described(blocking[name])


def test_the_client_has_a_method_for_every_part_on_both_sides() -> None:
    from rota import AsyncClient, Client

    with Client("http://127.0.0.1:1", "token") as client:
        awaited = AsyncClient("http://127.0.0.1:1", "token")
        assert {name for name in vars(client) if name[0] != "_"} == {name for name in vars(awaited) if name[0] != "_"}


def _classes(side: str, module: str) -> dict[str, type]:
    found = importlib.import_module(f"rota.client.{side}.{module}")
    classes = inspect.getmembers(found, inspect.isclass)
    return {name.removeprefix("Async"): kind for name, kind in classes if kind.__module__ == found.__name__}


def _described(kind: type) -> dict[str, tuple[list[tuple[str, str, object]], str]]:
    """The class's docstring, and the parameters and docstring of each public method."""
    methods = {name: _function(value) for name, value in vars(kind).items() if name[0] != "_" or name == "__init__"}
    described = {name: (_parameters(method), _prose(method)) for name, method in methods.items() if callable(method)}
    return {**described, "": ([], _prose(kind))}


def _function(value: object) -> object:
    return value.fget if isinstance(value, property) else value


def _parameters(method: object) -> list[tuple[str, str, object]]:
    parameters = inspect.signature(method).parameters.values()  # type: ignore[arg-type]
    return [(one.name, one.kind.name, one.default) for one in parameters]


def _prose(subject: object) -> str:
    return re.sub(r"\bawait |\basync (?=with )|\bAsync(?=[A-Z])", "", inspect.getdoc(subject) or "")
