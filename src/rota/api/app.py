"""The HTTP application: routes, problems, metrics, and an OpenAPI document that says what the routes really take."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.api import answers, problems
from rota.api.query_parameters import QUERY
from rota.api.routes import (
    admin,
    artifacts,
    caps,
    catalogue,
    cluster,
    concurrency_keys,
    dead,
    edits,
    events,
    graphs,
    health,
    load,
    logs,
    once,
    pauses,
    pools,
    preview,
    retention,
    schedules,
    schemas,
    secrets,
    tasks,
    webhooks,
    why,
)
from rota.api.routes.worker import connections, objects
from rota.api.services import Services
from rota.model.errors import Problem
from rota.model.once import OnceAsk
from rota.model.request.edit import EditRequest
from rota.model.request.structure import derived
from rota.model.request.task_request import RAW_FIELDS, BatchRequest, GraphRequest, TaskRequest
from rota.model.schedule.request import BackfillRequest, ScheduleRequest
from rota.observe.metrics import Metrics

_BODIES: dict[tuple[str, str], type[msgspec.Struct]] = {
    ("post", "/v1/tasks"): TaskRequest,
    ("post", "/v1/tasks/batch"): BatchRequest,
    ("post", "/v1/graphs"): GraphRequest,
    ("post", "/v1/tasks/preview"): TaskRequest,
    ("post", "/v1/tasks/wait"): tasks.WaitRequest,
    ("post", "/v1/tasks/cancel"): tasks.IdsRequest,
    ("post", "/v1/tasks/{task}/extend"): caps.ExtendRequest,
    ("patch", "/v1/tasks/{task}"): EditRequest,
    ("post", "/v1/tasks/{task}/hold"): pauses.HoldRequest,
    ("post", "/v1/tasks/hold"): pauses.HoldManyRequest,
    ("post", "/v1/tasks/release"): pauses.ReleaseManyRequest,
    ("post", "/v1/nodes/{node}/drain"): cluster.DrainRequest,
    ("post", "/v1/once"): once.OnceRequest,
    ("post", "/v1/worker/once"): OnceAsk,
    ("post", "/v1/dead/requeue"): dead.DeadRequest,
    ("post", "/v1/dead/discard"): dead.DeadRequest,
    ("post", "/v1/tenants"): admin.TenantRequest,
    ("post", "/v1/tokens"): admin.TokenRequest,
    ("patch", "/v1/plans/{name}"): admin.PlanChange,
    ("put", "/v1/tiers/{name}"): catalogue.TierChange,
    ("put", "/v1/categories/{name}"): catalogue.CategoryChange,
    ("post", "/v1/lanes"): catalogue.LaneRequest,
    ("patch", "/v1/lanes/{name}"): catalogue.LaneChange,
    ("post", "/v1/pools"): pools.PoolRequest,
    ("patch", "/v1/pools/{name}"): pools.PoolChange,
    ("put", "/v1/secrets/{name}"): secrets.SecretValue,
    ("post", "/v1/keys/{key}/cool"): concurrency_keys.CoolRequest,
    ("post", "/v1/webhooks"): webhooks.WebhookRequest,
    ("patch", "/v1/retention"): retention.RetentionChange,
    ("post", "/v1/schedules"): ScheduleRequest,
    ("patch", "/v1/schedules/{name}"): ScheduleRequest,
    ("post", "/v1/schedules/{name}/backfill"): BackfillRequest,
}

_VERSIONED = {("patch", "/v1/schedules/{name}"), ("patch", "/v1/tasks/{task}")}
_RAW_BODIES = {("post", "/v1/artifacts"), ("put", "/v1/worker/attempts/{task}/{attempt}/objects/{purpose}")}

ROUTERS = (
    *(
        module.router
        for module in (
            tasks,
            caps,
            pauses,
            edits,
            once,
            why,
            preview,
            logs,
            events,
            webhooks,
            dead,
            secrets,
            artifacts,
            concurrency_keys,
            schedules,
            graphs,
            cluster,
            pools,
            load,
            catalogue,
            retention,
            admin,
            connections,
            objects,
            schemas,
            health,
        )
    ),
    health.internal,
    load.internal,
)


def build_app(services: Services, version: str) -> FastAPI:
    app = FastAPI(
        title="Rota",
        version=version,
        description="A distributed, multi-tenant task scheduler.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.services = services
    app.state.metrics = Metrics()
    # The busiest routes are served without FastAPI's argument machinery, which they don't use and which costs more than
    # the rest of them; the same functions stand below for the OpenAPI document.
    for path, endpoint in (("/v1/tasks", tasks.submit_task), ("/v1/tasks/batch", tasks.submit_batch)):
        app.router.routes.append(Route(path, endpoint, methods=["POST"]))
    for router in ROUTERS:
        app.include_router(router)
    problems.install(app, [route for router in ROUTERS for route in router.routes])
    app.add_middleware(_Measured, metrics=app.state.metrics)
    app.add_middleware(_WithoutNul)
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(plain())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def _described(document: dict[str, Any]) -> dict[str, Any]:
    """Adds the bodies, which our own decoder reads, and the key every route wants."""
    task = derived(TaskRequest, instead=RAW_FIELDS)
    batch = derived(BatchRequest, instead={"tasks": list[task]})  # type: ignore[valid-type]
    graph = derived(GraphRequest, instead={"tasks": list[task]})  # type: ignore[valid-type]
    done = derived(once.OnceRequest, instead={"result": Any | msgspec.UnsetType})
    schedule = derived(ScheduleRequest, instead={"task": task, "tasks": list[task]})  # type: ignore[valid-type]
    readable: dict[type[msgspec.Struct], type[msgspec.Struct]] = {
        TaskRequest: task, BatchRequest: batch, GraphRequest: graph, once.OnceRequest: done, ScheduleRequest: schedule,
    }  # fmt: skip
    _, components = msgspec.json.schema_components(
        [readable.get(kind, kind) for kind in dict.fromkeys(_BODIES.values())],
        ref_template="#/components/schemas/{name}",
    )
    document.setdefault("components", {}).setdefault("schemas", {}).update(components)
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    document["components"]["schemas"]["Problem"] = {
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
            "detail": {"type": "string"}, "instance": {"type": "string"},
            "errors": {"type": "array", "items": {"type": "object"}},
        },
    }  # fmt: skip
    problem = {
        "description": "A problem document (RFC 9457).",
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            operation["responses"].pop("422", None)
            answers.describe((method, path), operation["responses"])
            operation["responses"]["default"] = problem
            if path.startswith("/v1") and not path.startswith(schemas.router.prefix):
                operation["security"] = [{"key": []}]
            kind = _BODIES.get((method, path))
            if kind is not None:
                reference = {"$ref": f"#/components/schemas/{kind.__name__}"}
                operation["requestBody"] = {
                    "required": True,
                    "content": {"application/json": {"schema": reference}},
                }
            if (method, path) in _RAW_BODIES:
                anything = {"schema": {"type": "string", "format": "binary"}}
                operation["requestBody"] = {"required": True, "content": {"application/octet-stream": anything}}
            if (method, path) in QUERY:
                known = [parameter.document() for parameter in QUERY[method, path]]
                operation["parameters"] = operation.get("parameters", []) + known
            if (method, path) in _VERSIONED:
                operation.setdefault("parameters", []).append(
                    {"name": "If-Match", "in": "header", "required": False, "schema": {"type": "string"}}
                )
            if (method, path) in (("post", "/v1/tasks"), ("post", "/v1/tasks/batch"), ("post", "/v1/graphs")):
                operation.setdefault("parameters", []).append(
                    {
                        "name": "Idempotency-Key",
                        "in": "header",
                        "required": False,
                        "schema": {"type": "string"},
                    }
                )
    return document


class _WithoutNul:
    """A path with NUL in it names nothing: refused, and its connection closed, before any route looks at it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and "\0" in scope["path"]:
            refusal = problems.problem_response(
                Problem("bad-request", status=400, title="Bad request", detail="the address contains NUL")
            )
            refusal.headers["connection"] = "close"
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


class _Measured:
    """Times every answer by route template, so that ids never become labels."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 500

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            route = scope.get("route")
            template = getattr(route, "path", "unmatched")
            self._metrics.requests.labels(scope["method"][:10], template, status).observe(time.perf_counter() - began)
