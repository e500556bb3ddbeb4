"""Answers that FastAPI can't know of, for the OpenAPI document: a second good status, and bodies that are not JSON."""

from __future__ import annotations

from typing import Any

Route = tuple[str, str]

# Beside the one in the route's own declaration.
ALSO: dict[Route, tuple[str, str]] = {
    ("post", "/v1/tasks"): ("200", "The same request came before; its task."),
    ("post", "/v1/tasks/batch"): ("200", "The same request came before; its tasks."),
    ("post", "/v1/graphs"): ("200", "The same request came before; its graph."),
    ("post", "/v1/once"): ("200", "It was done, or is being done, by somebody else."),
    ("post", "/v1/artifacts"): ("200", "The tenant has these bytes already."),
    ("post", "/v1/schedules/{name}/run"): ("200", "Nothing was started; the reason is in the answer."),
    ("put", "/v1/tiers/{name}"): ("201", "It is new."),
    ("put", "/v1/categories/{name}"): ("201", "It is new."),
    ("put", "/v1/secrets/{name}"): ("201", "It is new."),
}

# Instead of JSON.
MEDIA: dict[Route, tuple[str, ...]] = {
    ("get", "/v1/tasks/{task}/log"): ("text/plain", "application/x-ndjson"),
    ("get", "/v1/events"): ("text/event-stream",),
    ("get", "/v1/artifacts/{artifact}/content"): ("application/octet-stream",),
    ("get", "/v1/worker/attempts/{task}/{attempt}/artifacts/{artifact}"): ("application/octet-stream",),
    ("get", "/v1/worker/attempts/{task}/{attempt}/objects/{number}/content"): ("application/octet-stream",),
    ("get", "/v1/schemas/rota.yaml.json"): ("application/schema+json",),
    ("get", "/metrics"): ("text/plain",),
}
_PARTS = {
    ("get", "/v1/artifacts/{artifact}/content"),
    ("get", "/v1/worker/attempts/{task}/{attempt}/artifacts/{artifact}"),
    ("get", "/v1/worker/attempts/{task}/{attempt}/objects/{number}/content"),
}


def describe(route: Route, responses: dict[str, Any]) -> None:
    """Adds them to what is said of the route's answers."""
    if route in ALSO:
        status, why = ALSO[route]
        responses[status] = {"description": why, "content": {"application/json": {"schema": {}}}}
    if route in MEDIA:
        responses["200"]["content"] = {media: {"schema": {"type": "string"}} for media in MEDIA[route]}
    if route in _PARTS:
        responses["206"] = {**responses["200"], "description": "The part that was asked for."}
