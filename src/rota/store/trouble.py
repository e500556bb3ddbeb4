"""Trouble with the database at the start of a process: what passes by itself is waited for, the rest is one sentence.

A database that is away, starts, or is a standby will be there some day; so waiting is right, however long. A database
that refuses this process (password, user, name) will not change by itself.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from rota.model.errors import Problem
from rota.store.database import CONNECTION_LOST

LONGEST_PAUSE_SECONDS = 2.0
_PASSING = (asyncpg.LockNotAvailableError, asyncpg.TransactionRollbackError)  # another session is in the way

T = TypeVar("T")


class DatabaseRefused(Exception):
    """The database is there and will not serve this process; the message says why."""


async def until_database(
    action: Callable[[], Awaitable[T]],
    on_wait: Callable[[str, BaseException], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Repeats `action` until the database serves it, and tells `on_wait` why it does not. Raises DatabaseRefused."""
    pause = 0.1
    while True:
        try:
            return await action()
        except Exception as error:
            found = error.__cause__ if isinstance(error, Problem) and error.__cause__ is not None else error
            sentence = refusal(found)
            if sentence is not None:
                raise DatabaseRefused(sentence) from error
            reason = why_unreachable(found)
            if reason is None:
                raise
            on_wait(reason, found)
        await sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def refusal(error: BaseException) -> str | None:
    """A sentence if the database, or its client, will never accept this URL as it is; None for other errors."""
    match error:
        case asyncpg.InvalidAuthorizationSpecificationError() | asyncpg.InvalidCatalogNameError():
            return f"the database refuses this server: {error}; check --database"
        case asyncpg.InsufficientPrivilegeError():
            return f"the database's user may not do what Rota needs: {error}"
        case ssl.SSLCertVerificationError():
            return f"the database's certificate is not trusted: {error.verify_message}; check sslmode and sslrootcert"
        case asyncpg.exceptions.ClientConfigurationError():  # an InterfaceError, too
            return f"--database can't be understood: {error}"
        case asyncpg.TargetServerAttributeNotMatched() | TimeoutError():
            return None
        case asyncpg.PostgresError() if not isinstance(error, (*CONNECTION_LOST, *_PASSING)):
            return f"the database can't be used: {error}"
    return None


def why_unreachable(error: BaseException) -> str | None:
    """Why there is no database now, in words that everybody may read; None if the error means something else."""
    match error:
        case socket.gaierror():
            return "the name of the database's machine is not known"
        case ConnectionRefusedError() | FileNotFoundError():
            return "nothing listens at the database's address"
        case TimeoutError():
            return "the database does not answer"
        case asyncpg.CannotConnectNowError():
            return "the database is starting or stopping"
        case asyncpg.TooManyConnectionsError():
            return "the database has no free connection"
        case asyncpg.ReadOnlySQLTransactionError() | asyncpg.TargetServerAttributeNotMatched():
            return "no database takes writes"
        case _ if isinstance(error, _PASSING):
            return "the schema can't be upgraded while a long transaction uses it"
        case _ if isinstance(error, CONNECTION_LOST):
            return "the database can't be reached"
    return None
