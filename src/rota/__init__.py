"""Rota: hand a task over, go on with your day. `from rota import Client, task` is all most programs need.

Names are imported when first used (PEP 562), so that `import rota` costs nothing in a worker or at a prompt.
Nothing inside the package imports this file, except the CLI for the version: it names every layer and would
tie them together.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what checkers take for true; the typing module itself would cost every small process 2 MB

if TYPE_CHECKING:
    from rota.client.async_client import AsyncClient
    from rota.client.async_handle import AsyncTaskHandle
    from rota.client.client import Client
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
    from rota.client.handle import TaskHandle
    from rota.client.options import TaskOptions, TaskSpec
    from rota.execute.context import current
    from rota.execute.kept_value import CheckpointError
    from rota.model.once import OnceError

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncTaskHandle",
    "CheckpointError",
    "Client",
    "ConfigurationError",
    "Graph",
    "LimitExceeded",
    "ManifestError",
    "ManifestFault",
    "ManifestRefused",
    "NotFound",
    "OnceError",
    "Refused",
    "ResultMismatch",
    "RotaError",
    "ServerFault",
    "TaskCancelled",
    "TaskExpired",
    "TaskFailed",
    "TaskFunction",
    "TaskHandle",
    "TaskLost",
    "TaskOptions",
    "TaskSkipped",
    "TaskSpec",
    "TaskTimedOut",
    "Unauthorized",
    "Unreachable",
    "WaitTimeout",
    "__version__",
    "current",
    "task",
]


def __getattr__(name: str) -> object:
    value = _load(name)
    globals()[name] = value
    return value


def _load(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'rota' has no attribute {name!r}")
    if name == "current":
        from rota.execute.context import current

        return current
    if name == "CheckpointError":
        from rota.execute.kept_value import CheckpointError

        return CheckpointError
    if name == "OnceError":
        from rota.model.once import OnceError

        return OnceError
    if name in ("AsyncClient", "AsyncTaskHandle"):
        from rota.client import async_client

        return getattr(async_client, name)
    if name in ("Client", "TaskHandle"):
        from rota.client import client

        return getattr(client, name)
    if name in ("TaskFunction", "task"):
        from rota.client import functions

        return getattr(functions, name)
    if name == "Graph":
        from rota.client.graph import Graph

        return Graph
    if name in ("TaskOptions", "TaskSpec"):
        from rota.client import options

        return getattr(options, name)
    from rota.client import errors

    return getattr(errors, name)


def __dir__() -> list[str]:
    return sorted(__all__)
