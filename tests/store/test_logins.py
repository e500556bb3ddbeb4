"""Logins as rows: which are deleted when, and who decides about one."""

from __future__ import annotations

from datetime import timedelta

from rota.model.accounts.logins import Asked
from rota.store import logins
from tests.store.rows import Rows

ASKED = Asked(machine="m", lasts=timedelta(days=1), tenant=None)


async def _add(rows: Rows, code: bytes, user_code: bytes) -> int | None:
    return await logins.add_device(
        rows.connection,
        code_hash=code,
        user_code_hash=user_code,
        asked=ASKED,
        address="127.0.0.1",
        network=None,
        agent="",
        poll_seconds=5,
        lasts=timedelta(minutes=10),
    )


async def test_what_nobody_can_use_any_more_is_deleted_and_what_gave_a_token_is_kept_for_a_day(rows: Rows) -> None:
    async with rows.connection.transaction():
        numbers = [await _add(rows, bytes([n]), bytes([n])) for n in range(5)]
        waiting, late, fresh_token, old_token, spent = (number or 0 for number in numbers)
        for number, token in ((fresh_token, 7), (old_token, 8), (spent, None)):
            await logins.use_code(rows.connection, number, token)
        await rows.connection.execute(
            "update cli_logins set expires_at = now() - interval '2 minutes' where id = any($1)",
            [late, fresh_token, spent],
        )
        await rows.connection.execute(
            "update cli_logins set expires_at = now() - interval '25 hours' where id = $1", old_token
        )
        await logins.forget_logins(rows.connection, rows=100)
        left = await rows.connection.fetch("select id from cli_logins where id = any($1) order by id", numbers)
        assert [row["id"] for row in left] == [waiting, fresh_token]


async def test_a_code_that_another_login_has_is_not_taken(rows: Rows) -> None:
    assert await _add(rows, b"code-1", b"typed-1") is not None
    assert await _add(rows, b"code-2", b"typed-1") is None
    assert await _add(rows, b"code-1", b"typed-2") is None
    assert await logins.lock_login(rows.connection, b"code-1", "browser") is None, "of the other kind"


async def test_the_first_decision_holds(rows: Rows) -> None:
    await _add(rows, b"code-3", b"typed-3")
    first = await logins.decide(rows.connection, b"typed-3", allowed=False, principal=1, tenant="default")
    assert first is not None
    assert await logins.decide(rows.connection, b"typed-3", allowed=True, principal=2, tenant="default") is None
    assert await logins.find_pending(rows.connection, b"typed-3") is None
    kept = await logins.lock_login(rows.connection, b"code-3", "device")
    assert kept is not None
    assert (kept.principal, kept.standing.allowed, kept.asked.tenant) == (1, False, "default")
