"""Runs a server node in this process. An error that a user can mend becomes one sentence and an exit code."""

from __future__ import annotations

import os
import time
from pathlib import Path

import structlog
import uvloop

from rota.admit.first_tokens import ensure_first_tokens, has_tokens
from rota.cli.operate.json_logging import configure_logging, fail
from rota.cli.operate.own_process import CRASHED, announce_ready, leave_no_dump, say
from rota.server.certificate import read_pair
from rota.server.http_server import CantListen
from rota.server.links import links_in_clear
from rota.server.node import run_node
from rota.settings import Settings, SettingsError
from rota.store.key_file import open_key_file
from rota.store.migrations import SchemaTooNew, TooOldPostgres
from rota.store.trouble import DatabaseRefused

log = structlog.get_logger()


def run_server(settings: Settings, tokens: Path) -> int:
    leave_no_dump()
    try:
        open_key_file(settings.secrets_key)  # before anything starts
        if settings.tls_cert:
            read_pair(Path(settings.tls_cert), Path(settings.tls_key), time.time())
    except SettingsError as error:
        return say(str(error), 2)
    configure_logging()
    for event, details in links_in_clear(settings, os.environ):
        log.warning(event, **details)
    try:
        uvloop.run(_serve(settings, tokens.absolute()))
    except SettingsError as error:
        return fail(str(error), 2)
    except (SchemaTooNew, TooOldPostgres) as error:
        return fail(str(error), 1)
    except DatabaseRefused as error:
        return fail(str(error), 4)
    except CantListen as error:
        return fail(str(error), 5)
    except Exception:
        log.exception("node.crashed")
        return CRASHED
    return 0


async def _serve(settings: Settings, tokens: Path) -> None:
    async def make_first_tokens() -> None:
        if await has_tokens(settings.database):
            return
        await ensure_first_tokens(settings.database, tokens)
        log.info("node.first_start", token_of_administrator=str(tokens), workers_join_with="rota worker-key add")

    await run_node(settings, on_schema=make_first_tokens, on_ready=announce_ready)
