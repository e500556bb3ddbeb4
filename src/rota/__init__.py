"""Rota: a distributed task scheduler. Most programs need only `from rota import Client, task`.

A name is imported when it is first used (PEP 562), so that `import rota` is cheap in a worker or a command. No module
of the package imports names from here, except the CLI for the version: this file names every layer.
"""

# The imports below are for type checkers (`as` exports a name); a program imports through `_HOMES`.
from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it for True; importing typing costs every small process 2 MB

if TYPE_CHECKING:
    from rota.client._async.client import AsyncClient as AsyncClient
    from rota.client._async.handle import AsyncTaskHandle as AsyncTaskHandle
    from rota.client._sync.client import Client as Client
    from rota.client._sync.handle import TaskHandle as TaskHandle
    from rota.client.errors import ConfigurationError as ConfigurationError
    from rota.client.errors import LimitExceeded as LimitExceeded
    from rota.client.errors import ManifestError as ManifestError
    from rota.client.errors import ManifestFault as ManifestFault
    from rota.client.errors import ManifestRefused as ManifestRefused
    from rota.client.errors import NotFound as NotFound
    from rota.client.errors import Refused as Refused
    from rota.client.errors import ResultMismatch as ResultMismatch
    from rota.client.errors import RotaError as RotaError
    from rota.client.errors import ServerFault as ServerFault
    from rota.client.errors import TaskCancelled as TaskCancelled
    from rota.client.errors import TaskExpired as TaskExpired
    from rota.client.errors import TaskFailed as TaskFailed
    from rota.client.errors import TaskLost as TaskLost
    from rota.client.errors import TaskSkipped as TaskSkipped
    from rota.client.errors import TaskTimedOut as TaskTimedOut
    from rota.client.errors import Unauthorized as Unauthorized
    from rota.client.errors import Unreachable as Unreachable
    from rota.client.errors import WaitTimeout as WaitTimeout
    from rota.client.functions import TaskFunction as TaskFunction
    from rota.client.functions import task as task
    from rota.client.graph import Graph as Graph
    from rota.client.options import TaskOptions as TaskOptions
    from rota.client.options import TaskSpec as TaskSpec
    from rota.execute.child.checkpoint import CheckpointError as CheckpointError
    from rota.execute.child.context import current as current
    from rota.model.once import OnceError as OnceError

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
