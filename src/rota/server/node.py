"""The composition root of a server node: builds every part, starts them in order, and stops them in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import secrets
import signal
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version as package_version
from typing import Any
from uuid import UUID

import structlog

from rota.admit.admission import Admission
from rota.admit.artifacts import Artifacts
from rota.admit.authenticate import Authenticator
from rota.admit.facts_cache import FactsCache
from rota.admit.graph_runs import GraphRuns
from rota.admit.oidc.provider import Provider
from rota.admit.oidc.refresh import Refresher
from rota.admit.open_connections import OpenConnections
from rota.admit.passwords import Passwords
from rota.admit.sign_in_limits import SignInLimits
from rota.api.app import build_app
from rota.api.requests import Cursors
from rota.api.routes.events import event_of
from rota.api.services import Services, tell_batch, tell_cancelled, tell_expired
from rota.attempt_key import AttemptKeys
from rota.cluster.hints import HintSender
from rota.cluster.leases import new_holder
from rota.cluster.membership import Membership
from rota.dispatch.leadership import Leadership
from rota.node_identity import NodeTokens
from rota.observe.events import Events
from rota.observe.notify.notifier import Notifier
from rota.observe.waiting import Waiting
from rota.operations.batch import Batches
from rota.operations.runner import Operations
from rota.server.certificate import open_certificate
from rota.server.housekeeping import (
    run_audit_seals,
    run_expiry,
    run_housekeeping,
    run_retention,
    run_row_counts,
)
from rota.server.http_server import HttpServer, http_server, listen
from rota.server.long_logs import LogKeeper
from rota.server.starting import Entrance
from rota.settings import Settings
from rota.store.audit_notes import AuditNotes
from rota.store.database import Database
from rota.store.key_file import KeyFile, open_key_file
from rota.store.log_segments import Segments
from rota.store.logs import MOST_ROW_BYTES
from rota.store.migrations import upgrade
from rota.store.nodes import ClusterIdentity, read_cluster
from rota.store.objects import open_objects
from rota.store.trouble import until_database
from rota.timetable.runs import Runs
from rota.timetable.ticker import Ticker
from rota.ui.routers import PAGES

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a node has as soon as it has a database."""

    services: Services
    hints: HintSender


async def run_node(
    settings: Settings,
    *,
    on_schema: Callable[[], Awaitable[None]] | None = None,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT, first only that it waits for its database. `on_schema`: its schema is there."""
    secret_keys = open_key_file(settings.secrets_key)
    certificate = open_certificate(settings)
    holder = new_holder(secrets.randbits(128))

    async def open_parts() -> _Parts:
        await upgrade(settings.database, check_transitions=settings.check_transitions)
        if on_schema is not None:
            await on_schema()
        return await _open(settings, holder, secret_keys)

    entrance = Entrance()
    listener = listen(settings)
    server = http_server(entrance, settings, certificate)
    stop = _stop_signals()
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="http")
    starting = asyncio.create_task(until_database(open_parts, entrance.wait), name="start")
    try:
        done, _ = await asyncio.wait([stop, serving, starting], return_when=asyncio.FIRST_COMPLETED)
        if starting in done:
            await _run(starting.result(), entrance, stop=stop, server=server, serving=serving, on_ready=on_ready)
    finally:
        starting.cancel()
        server.should_exit = True
        await asyncio.gather(starting, return_exceptions=True)
        await serving
        listener.close()


async def _open(settings: Settings, holder: UUID, secret_keys: KeyFile | None) -> _Parts:
    database = Database(
        settings.database, connections=settings.database_connections, keepalive=settings.timings.keepalive
    )
    try:
        async with database.engine() as connection:
            cluster = await read_cluster(connection)
        membership = Membership(database, settings, holder, package_version("rota"))
        await membership.join()
        hints = HintSender(cluster.secret)
        return _Parts(await _services(settings, database, cluster, membership, hints, secret_keys), hints)
    except BaseException:
        await database.close()
        raise


async def _run(
    parts: _Parts,
    entrance: Entrance,
    *,
    stop: asyncio.Task[None],
    server: HttpServer,
    serving: asyncio.Task[None],
    on_ready: Callable[[], None] | None,
) -> None:
    services, settings = parts.services, parts.services.settings
    app = build_app(services, package_version("rota"), PAGES)
    app.state.metrics.count_connections(server.connections, server.connections.ended)
    # Batches of thousands of rows hold no cycles: the garbage collector runs less often, and never checks the objects
    # of the start.
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    loops = _loops(services)
    if server.certificate is not None:
        loops["certificate"] = server.certificate.run()
        app.state.metrics.count_days(server.certificate.days_left)
    background = [asyncio.create_task(loop, name=name) for name, loop in loops.items()]
    try:
        entrance.app = app
        log.info("node.serving", url=settings.advertised_url, name=settings.name)
        if on_ready is not None:
            on_ready()
        done, _ = await asyncio.wait([stop, serving, *background], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if task is not stop:
                task.result()
        services.waiting.close()
        services.operations.close()
        services.events.close()
        server.should_exit = True
        await serving
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await parts.hints.close()
        await services.admission.ids.close()
        services.passwords.close()
        with contextlib.suppress(Exception):  # the database may be the reason to stop
            await services.audit_notes.write(last=True)
            await services.membership.leave()
        await services.database.close()


async def _services(
    settings: Settings,
    database: Database,
    cluster: ClusterIdentity,
    membership: Membership,
    hints: HintSender,
    secret_keys: KeyFile | None,
) -> Services:
    waiting = Waiting(database, lambda: membership.pools.keys() == membership.led_here())
    audit_notes = AuditNotes(database, settings.name)
    leadership = Leadership(
        database=database,
        settings=settings,
        membership=membership,
        cluster=cluster,
        hints=hints,
        on_ended=waiting.ended,
        secret_keys=secret_keys,
        on_secrets_used=audit_notes.used,
    )
    facts = FactsCache(
        database,
        log_limit_bytes=settings.log_limit_bytes,
        most_log_bytes=None if settings.objects else MOST_ROW_BYTES,
    )
    await facts.refresh()
    admission = Admission(
        database,
        facts,
        server=lambda: membership.server_id,
        on_arrived=leadership.arrived,
        on_timed=leadership.timed,
        growth_limit=settings.growth_limit,
    )
    objects = open_objects(settings.objects, settings.objects_options) if settings.objects else None
    segments = Segments(objects)
    runs = Runs(database, admission, facts, server=membership.server_id)
    node_tokens = NodeTokens(cluster.secret)
    return Services(
        settings=settings,
        database=database,
        authenticator=Authenticator(database, AttemptKeys(cluster.secret), node_tokens),
        passwords=Passwords(),
        sign_in_limits=SignInLimits(database),
        node_tokens=node_tokens,
        audit_notes=audit_notes,
        open_connections=OpenConnections(database),
        admission=admission,
        leadership=leadership,
        membership=membership,
        waiting=waiting,
        cluster=cluster,
        cursors=Cursors(cluster.secret),
        secret_keys=secret_keys,
        oidc=None if settings.oidc is None else Provider(settings.oidc),
        artifacts=Artifacts(
            database,
            objects,
            prefix=cluster.identity,
            limit_bytes=settings.artifact_limit_bytes,
            kept_for=timedelta(days=settings.artifact_days) if settings.artifact_days else None,
        ),
        facts=facts,
        runs=runs,
        graph_runs=GraphRuns(
            database, admission.ids, server=lambda: membership.server_id, announce=leadership.announce
        ),
        operations=Operations(
            database,
            Batches(facts, admission.ids, server=lambda: membership.server_id),
            tell=lambda batch: tell_batch(leadership, waiting, batch),
        ),
        ticker=Ticker(
            database=database,
            settings=settings,
            holder=new_holder(secrets.randbits(128)),
            runs=runs,
            on_cancelled=lambda cancelled: tell_cancelled(leadership, waiting, cancelled),
        ),
        events=Events(database),
        notifier=Notifier(database, secret=cluster.secret, private=settings.webhooks_private, describe=event_of),
        segments=segments,
        move_log=LogKeeper(database, segments, prefix=cluster.identity, long_bytes=settings.log_inline_bytes).move_now,
    )


def _loops(services: Services) -> dict[str, Coroutine[Any, Any, None]]:
    """The background loops of a server node, by name; only a leader has the last two."""
    database, settings = services.database, services.settings
    keeper = LogKeeper(
        database, services.segments, prefix=services.cluster.identity, long_bytes=settings.log_inline_bytes
    )
    loops = {
        "membership": services.membership.run(),
        "facts": services.facts.run(),
        "waiting": services.waiting.run(),
        "open-connections": services.open_connections.run(),
        "audit-notes": services.audit_notes.run(),
        "audit-seals": run_audit_seals(database),
        "token-use": services.authenticator.token_use.run(),
        "events": services.events.run(),
        "late": services.events.run_late(),
        "expiry": run_expiry(database, lambda expired: tell_expired(services.leadership, services.waiting, expired)),
        "notifier": services.notifier.run(),
        "group-commit": services.admission.group_commit.run(),
        "housekeeping": run_housekeeping(database, settings, services.artifacts),
        "retention": run_retention(database, settings.name),
        "row-counts": run_row_counts(database),
        "logs": keeper.run(),
        "operations": services.operations.run(),
    }
    if services.oidc is not None:
        refresher = Refresher(
            database,
            services.oidc,
            services.secret_keys,
            server=settings.name,
            changed=services.authenticator.forget,
        )
        loops["oidc"] = refresher.run()
    if "leader" in settings.roles:
        loops |= {"leadership": services.leadership.run(), "ticker": services.ticker.run()}
    return loops


def _stop_signals() -> asyncio.Task[None]:
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, event.set)

    async def wait() -> None:
        await event.wait()

    return asyncio.create_task(wait(), name="stop")
