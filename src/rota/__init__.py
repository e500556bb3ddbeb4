"""Rota: a distributed task scheduler. Most programs need only `from rota import Client, task`.

A name is imported when it is first used (PEP 562), so that `import rota` is cheap in a worker or a command. No module
of the package imports names from here, except the CLI for the version: this file names every layer.
"""

# ruff: noqa: F401 (the imports below are for type checkers; a program imports through `_HOMES`)
from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it for True; importing typing costs every small process 2 MB

if TYPE_CHECKING:
    from rota.client._async.client import AsyncClient
    from rota.client._async.handle import AsyncTaskHandle
    from rota.client._sync.client import Client
    from rota.client._sync.handle import TaskHandle
    from rota.client.errors import (
        ConfigurationError,
        LimitExceeded,
        ManifestError,
        ManifestFault,
        ManifestRefused,
        NotFound,
        Refused,
        ResultMismatch,
        RotaError,
        ServerFault,
        TaskCancelled,
        TaskExpired,
        TaskFailed,
        TaskLost,
        TaskSkipped,
        TaskTimedOut,
        Unauthorized,
        Unreachable,
        WaitTimeout,
    )
    from rota.client.functions import TaskFunction, task
    from rota.client.graph import Graph
    from rota.client.options import TaskOptions, TaskSpec
    from rota.execute.child.checkpoint import CheckpointError
    from rota.execute.child.context import current
    from rota.model.once import OnceError

__version__ = "0.1.0"

_ERRORS = "rota.client.errors"
_HOMES = {
    "AsyncClient": "rota.client._async.client",
    "AsyncTaskHandle": "rota.client._async.handle",
    "CheckpointError": "rota.execute.child.checkpoint",
    "Client": "rota.client._sync.client",
    "ConfigurationError": _ERRORS,
    "Graph": "rota.client.graph",
    "LimitExceeded": _ERRORS,
    "ManifestError": _ERRORS,
    "ManifestFault": _ERRORS,
    "ManifestRefused": _ERRORS,
    "NotFound": _ERRORS,
    "OnceError": "rota.model.once",
    "Refused": _ERRORS,
    "ResultMismatch": _ERRORS,
    "RotaError": _ERRORS,
    "ServerFault": _ERRORS,
    "TaskCancelled": _ERRORS,
    "TaskExpired": _ERRORS,
    "TaskFailed": _ERRORS,
    "TaskFunction": "rota.client.functions",
    "TaskHandle": "rota.client._sync.handle",
    "TaskLost": _ERRORS,
    "TaskOptions": "rota.client.options",
    "TaskSkipped": _ERRORS,
    "TaskSpec": "rota.client.options",
    "TaskTimedOut": _ERRORS,
    "Unauthorized": _ERRORS,
    "Unreachable": _ERRORS,
    "WaitTimeout": _ERRORS,
    "current": "rota.execute.child.context",
    "task": "rota.client.functions",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'rota' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
