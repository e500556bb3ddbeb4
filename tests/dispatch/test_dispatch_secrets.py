"""Secrets for a node: one statement for a batch, a sentence for each missing secret, frames of bounded size."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from rota import wire
from rota.dispatch.secrets import Resolved, refuse, resolve
from rota.dispatch.session import Session
from rota.model.resources import Resources
from rota.model.secret import Secret
from rota.model.task import Kind
from rota.store import secrets
from rota.store.envelope import SecretName, seal
from rota.store.key_file import KeyFile, ensure_key_file
from tests.dispatch.leading import Leading
from tests.store.rows import add_tenant


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    ensure_key_file(tmp_path / "keys", os.urandom)
    return KeyFile(tmp_path / "keys")


def _spec(*names: str) -> str:
    return '{"secrets":[' + ",".join(f'"{name}"' for name in names) + '],"command":["true"]}'


async def test_a_batch_is_resolved_for_each_tenant_apart_and_names_what_is_missing(
    leading: Leading, keys: KeyFile
) -> None:
    rows, pool = leading.rows, leading.pool
    other = await add_tenant(rows.connection)
    for tenant, name in ((rows.tenant, "A"), (rows.tenant, "B"), (other, "A")):
        secret_name = SecretName(tenant, name)
        sealed = seal(keys.keyring(), secret_name, f"{name} of {tenant}", os.urandom)
        await secrets.save_secret(rows.connection, secret_name, sealed, "ann")
    tasks = [
        (1, rows.tenant, _spec("A", "B")),
        (2, other, _spec("A")),
        (3, other, _spec("A", "B")),
        (4, other, _spec("B")),
    ]
    pool.secret_keys = keys
    found = await resolve(pool, leading.connection, tasks)
    gone = "the secret B is gone: it was removed after the task was submitted"
    assert found == {
        1: Resolved((Secret("A", f"A of {rows.tenant}"), Secret("B", f"B of {rows.tenant}"))),
        2: Resolved((Secret("A", f"A of {other}"),)),
        3: Resolved(trouble=gone),
        4: Resolved(trouble=gone),
    }
    pool.secret_keys = None
    without = await resolve(pool, leading.connection, tasks[1:2])
    assert without is not None
    assert "no master key (setting secrets_key)" in (without[2].trouble or "")


async def test_a_lost_connection_is_waited_for_and_then_resolved(leading: Leading, keys: KeyFile) -> None:
    rows, pool = leading.rows, leading.pool
    pool.secret_keys = keys
    secret_name = SecretName(rows.tenant, "KEPT")
    await secrets.save_secret(
        rows.connection, secret_name, seal(keys.keyring(), secret_name, "the value", os.urandom), "ann"
    )
    backend = (await leading.connection.get()).get_server_pid()
    await rows.connection.execute("select pg_terminate_backend($1, 5000)", backend)
    resolving = asyncio.create_task(resolve(pool, leading.connection, [(1, rows.tenant, _spec("KEPT"))]))
    async with asyncio.timeout(20):
        while not resolving.done():
            pool.wakes.cycle.set()  # as the slow poll does
            await asyncio.sleep(0.01)
    assert resolving.result() == {1: Resolved((Secret("KEPT", "the value"),))}


async def test_a_leader_whose_term_is_over_resolves_nothing(leading: Leading, keys: KeyFile) -> None:
    leading.pool.secret_keys = keys
    leading.pool.lease.end()
    assert await resolve(leading.pool, leading.connection, [(1, leading.rows.tenant, _spec("A"))]) is None


def _session(*capabilities: str) -> Session:
    hello = wire.Hello(1, "old-node", 1, 0, Resources(), {}, list(capabilities), "0.1")
    return Session(None, hello, node=1, epoch=1)  # type: ignore[arg-type]


async def test_an_agent_that_does_not_know_secrets_is_not_given_any() -> None:
    found = Resolved((Secret("A", "a value of A"),))
    assert refuse(found, _session("functions", "secrets")) is None
    assert refuse(found, None) is None  # nobody to send it to: the usual way decides
    refusal = refuse(found, _session("functions"))
    assert refusal is not None
    assert (refusal.type, "old-node" in refusal.message) == ("secret-unavailable", True)


async def test_starts_too_large_for_a_frame_are_spread_over_several() -> None:
    session = _session("secrets")
    value = (Secret("A", "x" * 64_000),) * 16
    runs = [wire.Run(n, 1, 1, Kind.COMMAND, "n", 1, 1, 1, "k", b"{}", value) for n in range(40)]
    session.start(runs, {1: Resources()})
    frames = session.take()
    assert all(len(frame) <= wire.MAX_FRAME_BYTES for frame in frames)
    starts = [wire.decode_to_agent(frame) for frame in frames]
    assert [run for start in starts if isinstance(start, wire.Start) for run in start.runs] == runs
