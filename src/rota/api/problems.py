"""Problems as RFC 9457 documents. Every refused or failed request is answered with one, never with a traceback."""

from __future__ import annotations

import math
from collections.abc import Sequence
from uuid import uuid4

import msgspec
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from rota.api.audit_sampling import note_denial
from rota.model.answers.fields import only
from rota.model.answers.problems import FieldFault, ProblemDocument
from rota.model.errors import Problem

log = structlog.get_logger()

TYPE_PREFIX = "https://rota.dev/problems/"
MEDIA_TYPE = "application/problem+json"


def problem_response(problem: Problem) -> Response:
    headers = {}
    fields = dict(problem.extra)
    if problem.faults:
        fields["errors"] = [FieldFault(fault.pointer, fault.code, fault.detail) for fault in problem.faults]
    if problem.retry_after_seconds is not None:
        seconds = max(1, math.ceil(problem.retry_after_seconds))
        headers["retry-after"] = str(seconds)
        fields["retry_after"] = seconds
    if problem.status == 401:
        headers["www-authenticate"] = 'Bearer realm="rota"'
    document = only(
        ProblemDocument,
        type=TYPE_PREFIX + problem.slug,
        title=problem.title,
        status=problem.status,
        detail=problem.detail,
        instance=f"urn:uuid:{uuid4()}",
        **fields,
    )
    return Response(msgspec.json.encode(document), problem.status, headers, MEDIA_TYPE)


_TITLES = {
    404: ("not-found", "Not found", "there is nothing at this address"),
    405: ("method-not-allowed", "Method not allowed", "this address does not take that method"),
}


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        if error.denied is not None or error.status == 403:
            note_denial(app.state.services.audit_notes, request, error)
        return problem_response(error)

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        slug, title, detail = _TITLES.get(error.status_code, ("bad-request", "Bad request", str(error.detail)))
        response = problem_response(Problem(slug, status=error.status_code, title=title, detail=detail))
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        if error.status_code == 405:
            # The framework lists the methods of one route; an address may have several routes.
            response.headers["allow"] = ", ".join(_methods(routes, request.url.path))
        return response

    async def on_crash(request: Request, error: Exception) -> Response:
        log.error("api.crashed", path=request.url.path, exc_info=error)
        return problem_response(
            Problem(
                "internal",
                status=500,
                title="Internal error",
                detail=(
                    "the server failed, and has logged why; try again, or give its operator the instance named here"
                ),
            )
        )

    app.add_exception_handler(Problem, on_problem)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(Exception, on_crash)


def _methods(routes: Sequence[BaseRoute], path: str) -> list[str]:
    found = (route for route in routes if isinstance(route, APIRoute) and route.path_regex.match(path))
    return sorted({method for route in found for method in route.methods or ()})
