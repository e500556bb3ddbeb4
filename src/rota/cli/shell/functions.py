"""The options of a `@task` function for `--function`: as in Python, they hold unless the command line says otherwise.

The module is imported here, from the current folder or an installed package. It may exist on the workers only: then the
task is submitted without these options, with a note.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Collection, Mapping
from functools import reduce
from typing import Any, cast

from rota.cli.shell import output
from rota.client.functions import TaskFunction
from rota.client.options import TaskSpec


def with_own_options(spec: TaskSpec, *, without: Collection[str]) -> TaskSpec:
    """The spec with the options of its function. What the command line gives comes first; mappings are merged."""
    path = spec.get("function")
    if path is None:
        return spec
    own = {name: value for name, value in _options_of(path).items() if name not in without}
    given = {name: value for name, value in spec.items() if value is not None}
    if "at" in given or "delay" in given:
        own.pop("at", None)
        own.pop("delay", None)
    for name, value in own.items():
        if isinstance(value, Mapping) and isinstance(given.get(name), Mapping):
            given[name] = {**value, **cast(Mapping[str, Any], given[name])}
    return cast(TaskSpec, {**spec, **own, **given})


def _options_of(path: str) -> Mapping[str, Any]:
    module_name, _, name = path.partition(":")
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what it prints must not mix with the answer
            if "" not in sys.path:
                sys.path.insert(0, "")  # the current folder, as for python -m
            module = importlib.import_module(module_name)
        function = reduce(getattr, name.split("."), cast(Any, module))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may do anything when it is imported
        why = f"{type(error).__name__}: {error}".rstrip(": ")
        output.note(f"{path} can't be imported here ({why}), so options of its @task are not used")
        return {}
    return function.task_options if isinstance(function, TaskFunction) else {}
