"""`@task`: a function that can be called as usual, or submitted to run on a node.

`.submit`, `.map` and `.starmap` submit it by name (`module:qualname`), so the node must be able to import it. HTTP is
imported at the first submit: a worker imports modules with `@task` functions, and must not load HTTP for them.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from rota import running_task
from rota.client.options import TaskOptions, TaskSpec

if TYPE_CHECKING:
    from rota.client._sync.client import Client
    from rota.client._sync.handle import TaskHandle
    from rota.client.checked_arguments import CheckedArguments

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class TaskFunction(Generic[Parameters, Returned]):
    """A function and the options of its tasks.

    @task(cap="30s", attempts=3)
    def resize(path: str, width: int = 800) -> str: ...

    resize("a.png")                  # a usual call
    resize.submit("a.png").result()  # on a node
    resize.map(["a.png", "b.png"])   # one request
    """

    def __init__(
        self, function: Callable[Parameters, Returned], options: TaskOptions, client: Client | None = None
    ) -> None:
        functools.update_wrapper(self, function)
        self.__qualname__: str = getattr(function, "__qualname__", repr(function))
        self.__rota_function__ = function
        self._options = options
        self._client = client

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        return self.__rota_function__(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> TaskFunction[Parameters, Returned]:
        if instance is not None:
            raise TypeError(f"{self.__qualname__} is a method; only functions and static methods can be tasks")
        return self

    def __repr__(self) -> str:
        return f"<task {self.__module__}:{self.__qualname__}>"

    @property
    def task_options(self) -> TaskOptions:
        """The options that `@task` and `options` gave."""
        return self._options

    def options(self, **options: Unpack[TaskOptions]) -> TaskFunction[Parameters, Returned]:
        """The same function with other options; options that are not named stay."""
        merged: TaskOptions = {**self._options, **options}
        return TaskFunction(self.__rota_function__, merged, self._client)

    def using(self, client: Client) -> TaskFunction[Parameters, Returned]:
        """The same function, submitted through this client instead of a default `Client()`."""
        return TaskFunction(self.__rota_function__, self._options, client)

    def spec(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> TaskSpec:
        """A call as a value, for `submit_many`, or `await client.submit(**resize.spec("a.png"))`."""
        return self._spec(args, kwargs)

    def submit(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> TaskHandle:
        handle = self._connected().submit(**self._spec(args, kwargs))
        handle.returns = self.returns
        return handle

    def map(self, items: Iterable[Any]) -> Sequence[TaskHandle]:
        """One task per item, each with the item as its only argument, in one request."""
        return self._submit_many([(item,) for item in items])

    def starmap(self, items: Iterable[Sequence[Any]]) -> Sequence[TaskHandle]:
        """One task per item, each with the item's parts as its arguments, in one request."""
        return self._submit_many([tuple(item) for item in items])

    @functools.cached_property
    def returns(self) -> object | None:
        """The type that results are converted to: the return annotation, if JSON has no such type."""
        if "return" not in getattr(self.__rota_function__, "__annotations__", {}):
            return None
        # Imported here: it is slow to import, and a node never needs it.
        annotations = importlib.import_module("rota.model.function.annotations")
        kind: object | None = annotations.hints_of(self.__rota_function__).get("return")
        return kind if annotations.needs_conversion(kind) else None

    def _submit_many(self, calls: list[tuple[Any, ...]]) -> Sequence[TaskHandle]:
        handles = self._connected().submit_many([self._work(args, {}) for args in self.sendable_calls(calls)])
        for handle in handles:
            handle.returns = self.returns
        return handles

    def sendable_calls(self, calls: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The positional arguments of many calls as they are sent; a TypeError has the faults of all of them."""
        return self._checks.many_sendable(calls)

    def template(self) -> TaskSpec:
        """The function and its options without arguments, for an array, whose items are the arguments."""
        return self._work((), {})

    def _spec(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskSpec:
        return self._work(*self._checks.sendable(args, kwargs))

    def _work(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskSpec:
        work: TaskSpec = {
            "function": path_of(self.__rota_function__),
            "args": args or None,
            "kwargs": kwargs or None,
        }
        return cast(TaskSpec, {**self._options, **work})

    @functools.cached_property
    def _checks(self) -> CheckedArguments:
        # Imported here: it is slow to import, and a node never needs it.
        checks: CheckedArguments = importlib.import_module("rota.client.checked_arguments").CheckedArguments(
            self.__rota_function__
        )
        return checks

    def _connected(self) -> Client:
        return self._client if self._client is not None else _default_client()


@overload
def task(function: Callable[Parameters, Returned], /) -> TaskFunction[Parameters, Returned]: ...


@overload
def task(
    **options: Unpack[TaskOptions],
) -> Callable[[Callable[Parameters, Returned]], TaskFunction[Parameters, Returned]]: ...


def task(
    function: Callable[Parameters, Returned] | None = None, /, **options: Unpack[TaskOptions]
) -> (
    TaskFunction[Parameters, Returned] | Callable[[Callable[Parameters, Returned]], TaskFunction[Parameters, Returned]]
):
    """Makes a function submittable: `@task`, or with options `@task(cap="30s", attempts=3)`."""
    if function is not None:
        return TaskFunction(function, options)
    return lambda plain: TaskFunction(plain, options)


def path_of(function: Callable[..., object]) -> str:
    """`module:qualname`, by which a node imports the function."""
    qualname: str = getattr(function, "__qualname__", "")
    module: str = getattr(function, "__module__", "")
    if not qualname or "<" in qualname:  # "<locals>" or "<lambda>"
        raise ValueError(f"{qualname or function!r} cannot be imported by name; define it at the top of a module")
    return f"{_module_behind_main() if module == '__main__' else module}:{qualname}"


def _module_behind_main() -> str:
    # On a node `__main__` is Rota's own program, so the function needs the name of the module that was started here.
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    stem = Path(file).stem if file else ""
    if not stem.isidentifier():
        raise ValueError(
            "a node cannot import a function of an interactive shell, or of a file whose name is not a module name; "
            "move it into a module and import it"
        )
    return stem


_NAMING = ("ROTA_SERVER", "ROTA_TOKEN", "ROTA_PROFILE", "ROTA_CA", "ROTA_INSECURE_HTTP")


def _default_client() -> Client:
    """A client of what the running task or the environment names now: both may have changed since the last submit."""
    return _client_of(running_task.access(), *map(os.environ.get, _NAMING))


@functools.lru_cache(maxsize=32)  # a process outlives many running tasks, each with a key of its own
def _client_of(access: tuple[str, str] | None, *environment: str | None) -> Client:
    """`Client()` finds the same access and the same environment."""
    from rota.client._sync.client import Client  # noqa: PLC0415 (workers import @task modules and need no HTTP)

    return Client()
