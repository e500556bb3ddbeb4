"""Runs a server node in this process. An error that a user can mend becomes one sentence and an exit code."""

from __future__ import annotations

import sys
from pathlib import Path

import uvloop

from rota.admit.first_tokens import ensure_first_tokens, has_tokens
from rota.cli.operate.own_process import announce_ready, configure_logging, leave_no_dump, say
from rota.server.node import run_node
from rota.settings import Settings, SettingsError
from rota.store.database import CONNECTION_LOST
from rota.store.key_file import open_key_file
from rota.store.migrations import SchemaTooNew, upgrade


def run_server(settings: Settings, tokens: Path) -> int:
    configure_logging()
    leave_no_dump()
    try:
        open_key_file(settings.secrets_key)  # before anything starts
    except SettingsError as error:
        return say(str(error), 2)
    try:
        uvloop.run(_serve(settings, tokens.absolute()))
    except SettingsError as error:
        return say(str(error), 2)
    except SchemaTooNew as error:
        return say(str(error), 1)
    except OSError as error:
        return say(
            f"can't listen on {settings.host}:{settings.port} or reach the database: {error.strerror or error}",
            5,
        )
    except CONNECTION_LOST as error:
        return say(f"the database can't be used: {error}", 5)
    return 0


async def _serve(settings: Settings, tokens: Path) -> None:
    await upgrade(settings.database, check_transitions=settings.check_transitions)
    if not await has_tokens(settings.database):
        await ensure_first_tokens(settings.database, tokens)
        sys.stderr.write(
            f"rota: this is the first start on this database; the tokens of administrator and workers are in {tokens}\n"
        )
    await run_node(settings, on_ready=announce_ready)
