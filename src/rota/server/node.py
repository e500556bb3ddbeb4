"""The composition root of a server node: builds every part, starts them in order, and stops them in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import secrets
import signal
import socket
from collections.abc import Callable, Coroutine
from datetime import timedelta
from importlib.metadata import version as package_version
from typing import Any

import structlog
import uvicorn
from fastapi import FastAPI

from rota.admit.admission import Admission
from rota.admit.artifacts import Artifacts
from rota.admit.authenticate import Authenticator
from rota.admit.facts_cache import FactsCache
from rota.admit.graph_runs import GraphRuns
from rota.api.app import build_app
from rota.api.requests import Cursors
from rota.api.routes.events import event_of
from rota.api.services import Services, tell_cancelled, tell_expired
from rota.cluster.hints import HintSender
from rota.cluster.leases import new_holder
from rota.cluster.membership import Membership
from rota.dispatch.leadership import Leadership
from rota.observe.events import Events
from rota.observe.notify.notifier import Notifier
from rota.observe.waiting import Waiting
from rota.server.housekeeping import run_expiry, run_housekeeping, run_retention
from rota.server.long_logs import LogKeeper
from rota.settings import Settings
from rota.store.database import Database, retrying
from rota.store.key_file import KeyFile, open_key_file
from rota.store.log_segments import Segments
from rota.store.migrations import upgrade
from rota.store.nodes import ClusterIdentity, read_cluster
from rota.store.objects import open_objects
from rota.timetable.runs import Runs
from rota.timetable.ticker import Ticker
from rota.wire import MAX_FRAME_BYTES

log = structlog.get_logger()

START_SECONDS = 60.0


async def run_node(settings: Settings, *, on_ready: Callable[[], None] | None = None) -> None:
    """Serves until SIGTERM or SIGINT."""
    version = package_version("rota")
    secret_keys = open_key_file(settings.secrets_key)
    deadline = asyncio.get_running_loop().time() + START_SECONDS
    await retrying(lambda: upgrade(settings.database, check_transitions=settings.check_transitions), deadline=deadline)
    database = Database(settings.database, connections=settings.database_connections)
    await database.open()
    async with database.engine() as connection:
        cluster = await read_cluster(connection)
    membership = Membership(database, settings, new_holder(secrets.randbits(128)), version)
    await membership.join()
    hints = HintSender(cluster.secret)
    services = await _services(settings, database, cluster, membership, hints, secret_keys)
    server = _Server(_http_config(build_app(services, version)))
    listener = _listen(settings)
    # Batches of thousands of rows hold no cycles: the garbage collector runs less often, and never checks the objects
    # of the start.
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    background = [asyncio.create_task(loop, name=name) for name, loop in _loops(services).items()]
    try:
        stop = _stop_signals()
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="http")
        log.info("node.serving", url=settings.advertised_url, name=settings.name)
        if on_ready is not None:
            on_ready()
        done, _ = await asyncio.wait([stop, serving, *background], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if task is not stop:
                task.result()
        server.should_exit = True
        await serving
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await hints.close()
        await services.admission.ids.close()
        with contextlib.suppress(Exception):  # the database may be the reason to stop
            await membership.leave()
        await database.close()
        listener.close()


async def _services(
    settings: Settings,
    database: Database,
    cluster: ClusterIdentity,
    membership: Membership,
    hints: HintSender,
    secret_keys: KeyFile | None,
) -> Services:
    waiting = Waiting(database, lambda: membership.pools.keys() == membership.led_here())
    leadership = Leadership(
        database=database,
        settings=settings,
        membership=membership,
        cluster=cluster,
        hints=hints,
        on_ended=waiting.ended,
        secret_keys=secret_keys,
    )
    facts = FactsCache(database)
    await facts.refresh()
    admission = Admission(
        database, facts, server=lambda: membership.server_id, on_arrived=leadership.arrived, on_timed=leadership.timed
    )
    objects = open_objects(settings.objects, settings.objects_options) if settings.objects else None
    runs = Runs(database, admission, facts, server=membership.server_id)
    return Services(
        settings=settings,
        database=database,
        authenticator=Authenticator(database),
        admission=admission,
        leadership=leadership,
        membership=membership,
        waiting=waiting,
        cluster=cluster,
        cursors=Cursors(cluster.secret),
        secret_keys=secret_keys,
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
        ticker=Ticker(
            database=database,
            settings=settings,
            holder=new_holder(secrets.randbits(128)),
            runs=runs,
            on_cancelled=lambda cancelled: tell_cancelled(leadership, waiting, cancelled),
        ),
        events=Events(database),
        notifier=Notifier(database, secret=cluster.secret, private=settings.webhooks_private, describe=event_of),
        segments=Segments(objects),
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
        "events": services.events.run(),
        "late": services.events.run_late(),
        "expiry": run_expiry(database, lambda expired: tell_expired(services.leadership, services.waiting, expired)),
        "notifier": services.notifier.run(),
        "group-commit": services.admission.group_commit.run(),
        "housekeeping": run_housekeeping(database, settings, services.artifacts),
        "retention": run_retention(database),
        "logs": keeper.run(),
    }
    if "leader" in settings.roles:
        loops |= {"leadership": services.leadership.run(), "ticker": services.ticker.run()}
    return loops


def _http_config(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="none",
        http="httptools",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_max_size=MAX_FRAME_BYTES,
        ws_ping_interval=None,
        ws_ping_timeout=None,
        lifespan="off",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=3,
        server_header=False,
        proxy_headers=False,
    )


class _Server(uvicorn.Server):
    """Leaves signals to this module, which decides the order of stopping."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


def _stop_signals() -> asyncio.Task[None]:
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, event.set)

    async def wait() -> None:
        await event.wait()

    return asyncio.create_task(wait(), name="stop")


def _listen(settings: Settings) -> socket.socket:
    listener = socket.create_server((settings.host, settings.port), backlog=2048, reuse_port=False)
    listener.setblocking(False)
    return listener
