"""What a route takes and answers, written beside it: `@described(…)` below the router's own decorator.

`openapi.py` makes the document of it, and `read_query` holds requests to the query parameters named there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastapi import Request
from starlette.datastructures import QueryParams

from rota.model.errors import Fault, invalid

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Schema = dict[str, Any]

MOST_LISTED = 1_000

TEXT: Schema = {"type": "string"}
TRUTH: Schema = {"type": "boolean"}
WHEN: Schema = {"type": "string", "examples": ["10m", "2030-01-31T08:00:00Z"]}
TAG_TEXT: Schema = {"type": "string", "pattern": "^[^:]+:.*$", "examples": ["team:ml"]}


def whole(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter or a header; never required."""

    name: str
    schema: Schema
    description: str
    location: str = "query"

    def document(self) -> Schema:
        return {
            "name": self.name,
            "in": self.location,
            "required": False,
            "schema": self.schema,
            "description": self.description,
        }


LIMIT = Parameter("limit", whole(1, MOST_LISTED), "The most entries of a page; 50 by default.")
CURSOR = Parameter("cursor", TEXT, "The `next` of the page before.")
NAME = Parameter("name", TEXT, "Exactly this name.")
TAG = Parameter("tag", TAG_TEXT, "With this tag, as name:value.")
SCHEDULE = Parameter("schedule", TEXT, "Made by the schedule of this name.")
GRAPH = Parameter("graph", TEXT, "Part of the graph with this id, or begun by the task with it.")
USER = Parameter("user", TEXT, "Submitted by this user.")
SINCE = Parameter("since", WHEN, "Submitted since: a duration before now, or a time with its offset.")
UNTIL = Parameter("until", WHEN, "Submitted before: a duration before now, or a time with its offset.")
TENANT = Parameter("tenant", TEXT, "Of another tenant; for administrators.")

ANCESTORS_OF = Parameter(
    "ancestors_of",
    TEXT,
    "Those that this task (array, graph) depends on, directly or not: its id, 12/name, or its name in `graph`.",
)
DESCENDANTS_OF = Parameter(
    "descendants_of",
    TEXT,
    "Those that depend on this task (array, graph), directly or not: its id, 12/name, or its name in `graph`.",
)
TASK_FILTERS = (NAME, TAG, SCHEDULE, GRAPH)
SUBMITTED = (USER, SINCE, UNTIL)
PAGE = (LIMIT, CURSOR)

IF_MATCH = Parameter("If-Match", TEXT, "The version that was read; or `version` in the body.", "header")
IDEMPOTENCY_KEY = Parameter("Idempotency-Key", TEXT, "The same key again submits nothing again.", "header")


@dataclass(frozen=True, slots=True)
class Media:
    """A body that is not one structure; `of` is the structure of each line or event in it."""

    type: str
    schema: Schema = field(default_factory=lambda: TEXT)
    of: Any = None


BYTES = Media("application/octet-stream", {"type": "string", "format": "binary"})
PLAIN_TEXT = Media("text/plain")
EVENT_STREAM = "text/event-stream"
PARTIAL = {206: (BYTES, "The requested range.")}

Content = Any  # a structure, a union of structures, a Media, or a tuple of several of these; None: no body


@dataclass(frozen=True, slots=True)
class Description:
    answer: Content
    also: Mapping[int, tuple[Content, str]]  # by further status: its content, and when it comes
    body: Any
    query: tuple[Parameter, ...]
    headers: tuple[Parameter, ...]
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(parameter.name for parameter in self.query))


_DESCRIPTIONS: dict[Callable[..., Any], Description] = {}


def described(
    answer: Content,
    *,
    also: Mapping[int, tuple[Content, str]] | None = None,
    body: Any = None,
    query: tuple[Parameter, ...] = (),
    headers: tuple[Parameter, ...] = (),
) -> Callable[[Endpoint], Endpoint]:
    def note(endpoint: Endpoint) -> Endpoint:
        _DESCRIPTIONS[endpoint] = Description(answer, also or {}, body, query, headers)
        return endpoint

    return note


def description_of(endpoint: Callable[..., Any]) -> Description | None:
    return _DESCRIPTIONS.get(endpoint)


def read_query(request: Request) -> QueryParams:
    """The query of a request, after a check that the route takes every parameter in it."""
    query = request.query_params
    allowed = sorted(_DESCRIPTIONS[request.scope["endpoint"]].names)
    right = f"there are {', '.join(allowed)}" if len(allowed) > 1 else f"there is only {allowed[0]}" if allowed else ""
    there = right or "this address takes none"
    faults = [
        Fault(
            f"/{name[:40]}",
            "invalid-filter",
            f"there is no query parameter {name[:40]!r}; {there}",
        )
        for name in query
        if name not in allowed
    ]
    faults += [
        Fault(f"/{name}", "invalid-filter", f"the query parameter {name} is given {len(given)} times; give it once")
        for name in allowed
        if len(given := query.getlist(name)) > 1
    ]
    if faults:
        raise invalid(faults)
    return query
