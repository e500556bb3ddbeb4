"""The OpenAPI document: FastAPI's paths, completed with the descriptions beside the routes.

Bodies and answers are read and written by msgspec, so their schemas come from the same structures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any, get_args

import msgspec
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from rota.api import problems
from rota.api.described import EVENT_STREAM, TEXT, Content, Description, Media, Schema, description_of
from rota.api.permissions import ANYBODY, permission_of
from rota.api.routes import once
from rota.model.answers.fields import ABSENT_MARK
from rota.model.answers.problems import ProblemDocument
from rota.model.request.preview_request import PreviewBatch, PreviewTask
from rota.model.request.structure import derived
from rota.model.request.task_request import RAW_FIELDS, BatchRequest, GraphRequest, TaskRequest
from rota.model.schedule.request import SchedulePreviewRequest, ScheduleRequest

JSON = "application/json"
_REFERENCE = "#/components/schemas/"
_DOCUMENT = re.compile(r"Document$")

Route = tuple[str, str, Description]  # path, method, description


def described_routes(routes: Iterable[BaseRoute]) -> Iterator[Route]:
    """Every route of the document. One without a description is a mistake."""
    for route in routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            description = description_of(route.endpoint)
            if description is None:
                raise LookupError(f"{route.endpoint.__name__} has no @described(…): its answers are unknown")
            for method in sorted(route.methods or ()):
                yield route.path_format, method.lower(), description


def install(app: FastAPI, routes: Iterable[BaseRoute]) -> None:
    """Makes `/openapi.json` the completed document; it is built at the first request."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = completed(plain(), list(described_routes(routes)))
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def completed(document: dict[str, Any], routes: list[Route]) -> dict[str, Any]:
    schema_of, components = _schemas(routes)
    document["components"] = {
        "schemas": dict(sorted(components.items())),
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    problem = _response(ProblemDocument, "A problem (RFC 9457).", schema_of, problems.MEDIA_TYPE)
    for path, method, description in routes:
        operation = document["paths"][path][method]
        main = next(iter(operation["responses"]))
        statuses = {int(main): (description.answer, HTTPStatus(int(main)).phrase), **description.also}
        operation["responses"] = {
            **{str(status): _response(content, text, schema_of) for status, (content, text) in statuses.items()},
            "default": problem,
        }
        if description.body is not None:
            operation["requestBody"] = {"required": True, "content": _content(description.body, schema_of)}
        parameters = [parameter.document() for parameter in (*description.query, *description.headers)]
        if parameters:
            operation["parameters"] = [*operation.get("parameters", []), *parameters]
        operation["x-rota-permission"] = permission_of(operation["operationId"])
        if path.startswith("/v1") and operation["x-rota-permission"] != ANYBODY:
            operation["security"] = [{"token": []}]
    return document


def _response(content: Content, text: str, schema_of: Callable[[Any], Schema], media: str = JSON) -> Schema:
    found = _content(content, schema_of, media)
    return {"description": text, "content": found} if found else {"description": text}


def _content(content: Content, schema_of: Callable[[Any], Schema], media: str = JSON) -> Schema:
    if content is None:
        return {}
    found: Schema = {}
    for part in content if isinstance(content, tuple) else (content,):
        if not isinstance(part, Media):
            found[media] = {"schema": schema_of(part)}
        elif part.of is None:
            found[part.type] = {"schema": part.schema}
        else:
            text = {"type": "string", "contentMediaType": JSON, "contentSchema": schema_of(part.of)}
            event = {"type": "object", "properties": {"id": TEXT, "event": TEXT, "data": text}}
            found[part.type] = {"schema": event if part.type == EVENT_STREAM else text}
    return found


# ---- schemas --------------------------------------------------------------------------------------------------------


def _schemas(routes: list[Route]) -> tuple[Callable[[Any], Schema], dict[str, Schema]]:
    """The schema of each structure that routes take or answer, and the components that these refer to."""
    readable = _readable()
    bodies = [readable.get(kind, kind) for kind in _structures(description.body for _, _, description in routes)]
    answers: list[Any] = [ProblemDocument]
    for _, _, description in routes:
        answers += [description.answer, *(content for content, _ in description.also.values())]
    references: dict[Any, Schema] = {}
    components: dict[str, Schema] = {}
    for kinds, finish in ((bodies, lambda part: part), (_structures(answers), _as_answer)):
        schemas_, parts = msgspec.json.schema_components(kinds, ref_template=_REFERENCE + "{name}")
        references |= dict(zip(kinds, map(_named, schemas_), strict=True))
        for name, part in parts.items():
            components.setdefault(_DOCUMENT.sub("", name), finish(_named(part)))

    def schema_of(kind: Any) -> Schema:
        parts = get_args(kind)
        return {"anyOf": [schema_of(part) for part in parts]} if parts else references[readable.get(kind, kind)]

    return schema_of, components


def _readable() -> dict[Any, Any]:
    """Requests that the server keeps as raw JSON, with the structure of that JSON."""
    task = derived(TaskRequest, instead=RAW_FIELDS)
    return {
        TaskRequest: task,
        BatchRequest: derived(BatchRequest, instead={"tasks": list[task]}),  # type: ignore[valid-type]
        GraphRequest: derived(GraphRequest, instead={"tasks": list[task]}),  # type: ignore[valid-type]
        once.OnceRequest: derived(once.OnceRequest, instead={"result": Any | msgspec.UnsetType}),
        PreviewTask: derived(PreviewTask, instead=RAW_FIELDS),
        PreviewBatch: derived(PreviewBatch, instead={"tasks": list[task]}),  # type: ignore[valid-type]
        SchedulePreviewRequest: derived(
            SchedulePreviewRequest,
            instead={"task": task, "tasks": list[task]},  # type: ignore[valid-type]
        ),
        ScheduleRequest: derived(ScheduleRequest, instead={"task": task, "tasks": list[task]}),  # type: ignore[valid-type]
    }


def _structures(contents: Iterable[Content]) -> list[Any]:
    found: dict[Any, None] = {}
    for content in contents:
        for part in content if isinstance(content, tuple) else (content,):
            kind = part.of if isinstance(part, Media) else part
            if kind is not None:
                found |= dict.fromkeys(get_args(kind) or (kind,))
    return list(found)


def _named(schema: Any) -> Any:
    """Components and references to them without the ending Document."""
    if isinstance(schema, dict):
        return {
            name: _DOCUMENT.sub("", value) if name in ("$ref", "title") and isinstance(value, str) else _named(value)
            for name, value in schema.items()
        }
    return [_named(part) for part in schema] if isinstance(schema, list) else schema


def _as_answer(schema: Schema) -> Schema:
    """A server sends every field that is not marked as possibly absent; defaults are for readers."""
    properties = schema.get("properties")
    if properties is None:
        return schema
    required = [name for name, part in properties.items() if ABSENT_MARK not in part]
    without = {
        name: {key: value for key, value in part.items() if key not in (ABSENT_MARK, "default")}
        for name, part in properties.items()
    }
    return {**schema, "properties": without, "required": required}
