"""Both ends of every connection to the database ask for signs of life, and the time until a peer counts as dead."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import asyncpg
import pytest

from rota.keepalive import Keepalive
from rota.store.database import Database, connect
from tests.harness.postgres import postgres_on

OPTIONS = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
SETTINGS = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")


@pytest.mark.parametrize("seconds", [0.1, 2, 3, 4, 5, 7.5, 12, 20, 60, 600])
def test_a_dead_peer_is_noticed_within_the_time_and_never_much_earlier(seconds: float) -> None:
    chosen = Keepalive.within(seconds)
    assert max(1.0, seconds * 0.8 - 1) <= chosen.total_seconds <= max(2.0, seconds)
    assert min(chosen.idle_seconds, chosen.interval_seconds, chosen.probes) >= 1


def test_pooled_and_direct_connections_have_the_options_on_the_socket_and_in_the_session(tmp_path: Path) -> None:
    """Over TCP: PostgreSQL shows zeros for a Unix socket."""

    async def look(url: str) -> list[list[int]]:
        database = Database(url, keepalive=Keepalive(7, 2, 4))
        direct = [await database.direct("test"), await connect(url, {}, keepalive=Keepalive(7, 2, 4))]
        found = [await _both_ends(one) for one in direct]
        async with database.engine() as pooled:
            found.append(await _both_ends(pooled))
        for one in direct:
            await one.close()
        await database.close()
        return found

    with postgres_on("127.0.0.4", tmp_path):
        found = asyncio.run(look("postgresql://postgres@127.0.0.4/postgres"))
    assert found == [[1, 7, 2, 4, 15000, 7, 2, 4, 15000]] * 3


async def _both_ends(connection: asyncpg.Connection) -> list[int]:
    plug = connection._transport.get_extra_info("socket")
    ours = [plug.getsockopt(socket.IPPROTO_TCP, option) for option in OPTIONS]
    theirs = [
        await connection.fetchval("select setting::int from pg_settings where name = $1", name) for name in SETTINGS
    ]
    return [plug.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), *ours, *theirs]


def test_a_listening_socket_passes_its_options_on(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        Keepalive(7, 2, 4).apply(listener, unread_seconds=60)
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            values = [accepted.getsockopt(socket.IPPROTO_TCP, option) for option in OPTIONS]
    assert values == [7, 2, 4, 60000]


def test_a_unix_socket_is_left_alone(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as plug:
        Keepalive(7, 2, 4).apply(plug)
        assert plug.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
