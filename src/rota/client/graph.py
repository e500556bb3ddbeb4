"""Builds a graph of tasks and submits it as a whole.

    with Graph("etl") as graph:
        extract = graph.task(["./extract.sh"], name="extract")
        load = graph.task(["./load.sh"], name="load", after=extract)
        extract >> graph.task(["./report.sh"], name="report")
    graph.wait()

Leaving the block submits the graph, unless an exception leaves it. `client.graphs` reads submitted graphs.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from rota.client._sync.client import Client
from rota.client._sync.handle import TaskHandle
from rota.client.functions import TaskFunction
from rota.client.options import Dependency, TaskSpec, request_of
from rota.model.answers.graphs import GraphDocument, SubmittedGraph
from rota.model.request.task_request import TaskRequest

Parents: TypeAlias = "Node | Dependency | Iterable[Node | Dependency] | None"
_EDGES = ("after", "after_end", "after_failed")
_OPTIONS = TaskRequest.__struct_fields__


class Node:
    """One task of a graph. `a >> b`: b runs after a; `a >> [b, c]`: both run after a."""

    def __init__(self, graph: Graph, name: str, spec: TaskSpec) -> None:
        self._graph = graph
        self.name = name
        self.spec = spec

    def __repr__(self) -> str:
        return f"<task {self.name!r} of graph {self._graph.name!r}>"

    def __rshift__(self, later: Node | Sequence[Node]) -> Node | Sequence[Node]:
        for node in [later] if isinstance(later, Node) else later:
            node.comes_after(self)
        return later

    def __rrshift__(self, earlier: Sequence[Node]) -> Node:
        for node in earlier:
            self.comes_after(node)
        return self

    def comes_after(self, other: Node) -> None:
        if other._graph is not self._graph:
            raise ValueError(f"{other!r} and {self!r} belong to different graphs")
        self.spec["after"] = [*(self.spec.get("after") or ()), other.name]

    @property
    def id(self) -> int:
        """The task's id, once the graph is submitted."""
        return self._graph.ids[self.name]

    def handle(self) -> TaskHandle:
        return self._graph.handles()[self.name]

    def wait(self, timeout: float | None = None) -> Any:
        return self.handle().wait(timeout)

    def result(self, timeout: float | None = None) -> Any:
        return self.handle().result(timeout)


class Graph:
    """A graph to build; once submitted, a handle on it."""

    def __init__(self, name: str, client: Client | None = None) -> None:
        self.name = name
        self.nodes: dict[str, Node] = {}
        self._alike: dict[str, int] = {}  # the last number given to tasks of one name
        self._client = client
        self._submitted: SubmittedGraph | None = None
        self._handles: dict[str, TaskHandle] | None = None

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None and self._submitted is None:
            self.submit()

    def task(
        self,
        work: Sequence[str] | TaskFunction[..., Any] | None = None,
        *arguments: Any,
        after: Parents = None,
        after_end: Parents = None,
        after_failed: Parents = None,
        **options: Any,
    ) -> Node:
        """Adds a task: a command, or a `@task` function and its arguments. It runs after nodes, or after other tasks.

        `options` are those of `submit`; see WorkOptions.
        """
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown:
            near = difflib.get_close_matches(unknown[0], _OPTIONS, n=1)
            raise TypeError(f"a task has no option {unknown[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        spec = _spec_of(work, arguments, options)
        name = spec.get("ref") or spec.get("name") or self._fresh_name(spec)
        if name in self.nodes:
            raise ValueError(f"graph {self.name!r} already has a task {name!r}")
        for field, given in zip(_EDGES, (after, after_end, after_failed), strict=True):
            if given is not None:
                spec[field] = [self._reference(parent) for parent in _several(given)]  # type: ignore[literal-required]
        spec["ref"] = name
        node = self.nodes[name] = Node(self, name, spec)
        return node

    def specs(self) -> list[TaskSpec]:
        """Its tasks for a schedule: `client.schedules.add(…, tasks=graph.specs(), graph=graph.name)`."""
        return [node.spec for node in self.nodes.values()]

    def requests(self) -> list[TaskRequest]:
        """The requests of its tasks."""
        return [request_of(node.spec) for node in self.nodes.values()]

    def submit(self) -> Graph:
        """Submits all of its tasks or none; leaving the `with` block does it too."""
        if not self.nodes:
            raise ValueError(f"graph {self.name!r} has no tasks")
        self._submitted = self.client.graphs.submit(self)
        return self

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client()
        return self._client

    @property
    def id(self) -> int:
        return self._answer().id

    @property
    def ids(self) -> Mapping[str, int]:
        """The tasks' ids by their names."""
        return self._answer().tasks

    def handles(self) -> Mapping[str, TaskHandle]:
        """The tasks' handles by their names; their results come many at once."""
        if self._handles is None:
            ids = self.ids
            self._handles = dict(zip(ids, self.client.handles(ids.values()), strict=True))
        return self._handles

    def document(self) -> GraphDocument:
        return self.client.graphs.get(self.id)

    def wait(self, timeout: float | None = None) -> GraphDocument:
        return self.client.graphs.wait(self.id, timeout)

    def _answer(self) -> SubmittedGraph:
        if self._submitted is None:
            raise ValueError(f"graph {self.name!r} is not submitted yet")
        return self._submitted

    def _reference(self, parent: Node | Dependency) -> Dependency:
        if not isinstance(parent, Node):
            return parent
        if parent._graph is not self:
            raise ValueError(f"{parent!r} belongs to another graph than {self.name!r}")
        return parent.name

    def _fresh_name(self, spec: TaskSpec) -> str:
        function, command = spec.get("function"), spec.get("command")
        stem = function.rpartition(":")[2] if function else str(command[0]).rpartition("/")[2] if command else "task"
        number = self._alike.get(stem, 1)
        while (name := stem if number == 1 else f"{stem}-{number}") in self.nodes:
            number += 1
        self._alike[stem] = number
        return name


def _spec_of(work: Any, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> TaskSpec:
    if hasattr(work, "spec"):
        if "items" in options or "array" in options:
            return cast(TaskSpec, {**work.template(), **options})
        called = {name: value for name, value in options.items() if name not in ("args", "kwargs")}
        given, named = options.get("args"), options.get("kwargs")
        return cast(TaskSpec, {**work.spec(*(arguments if given is None else given), **(named or {})), **called})
    if arguments:
        raise TypeError("only a @task function takes arguments; a command is one list of words")
    return cast(TaskSpec, {"command": work, **options})


def _several(given: Any) -> Iterable[Any]:
    return given if isinstance(given, list | tuple | set) else [given]
