"""The HTTP application: its routes, and what happens to every request before and after them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fastapi import APIRouter, FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.api import openapi, permissions, problems
from rota.api.origin import Received
from rota.api.routes import (
    admin,
    artifacts,
    attempts,
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
    schemas,
    secrets,
    submit,
    tasks,
    webhooks,
    why,
)
from rota.api.routes.accounts import logins, service_accounts, tokens, users, whoami, worker_keys
from rota.api.routes.audit import routes as audit
from rota.api.routes.operations import routes as operations
from rota.api.routes.schedule import apply, schedules
from rota.api.routes.sign_in import administration, factors, sessions, signing_in
from rota.api.routes.worker import connections, joining, objects
from rota.api.services import TOKEN_EXPIRES, Services
from rota.model.errors import Problem
from rota.observe.metrics import Metrics

ROUTERS = (
    *(
        module.router
        for module in (
            submit,
            tasks,
            attempts,
            pauses,
            edits,
            operations,
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
            apply,
            graphs,
            cluster,
            pools,
            load,
            catalogue,
            retention,
            audit,
            admin,
            users,
            service_accounts,
            tokens,
            logins,
            whoami,
            signing_in,
            sessions,
            factors,
            administration,
            worker_keys,
            joining,
            connections,
            objects,
            schemas,
            health,
        )
    ),
    health.internal,
    load.internal,
)


def build_app(services: Services, version: str, pages: Sequence[APIRouter] = ()) -> FastAPI:
    """`pages`: what `rota.ui` adds for browsers; they are not part of the API's document."""
    app = FastAPI(
        title="Rota",
        version=version,
        description="A distributed, multi-tenant task scheduler.",
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.services = services
    app.state.metrics = Metrics()
    # The busiest routes bypass FastAPI's arguments, which cost more than the rest of them. They are included below
    # again, for the OpenAPI document.
    for path, endpoint in (("/v1/tasks", submit.submit_task), ("/v1/tasks/batch", submit.submit_batch)):
        app.router.routes.append(Route(path, endpoint, methods=["POST"]))
    for router in ROUTERS:
        app.include_router(router)
    routes = [route for router in ROUTERS for route in router.routes]
    permissions.check_complete(routes)
    for router in pages:
        app.include_router(router)
    shown = [route for router in pages for route in router.routes]
    if shown:
        permissions.check_pages(shown)
    problems.install(app, [*routes, *shown])
    app.add_middleware(_Measured, metrics=app.state.metrics)
    app.add_middleware(_WithoutNul)
    app.add_middleware(Received)
    openapi.install(app, routes)
    return app


class _WithoutNul:
    """Refuses a path with NUL and closes its connection, before any route reads it."""

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
    """Measures the time of every answer, by route template: ids never become labels. Says if a token expires soon."""

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
                expires = scope.get(TOKEN_EXPIRES)
                if expires is not None:
                    message["headers"] = [*message["headers"], (b"rota-token-expires", expires.isoformat().encode())]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            route = scope.get("route")
            template = getattr(route, "path", "unmatched")
            self._metrics.requests.labels(scope["method"][:10], template, status).observe(time.perf_counter() - began)
