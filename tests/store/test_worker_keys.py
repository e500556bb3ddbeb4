"""Worker keys go a month after their end."""

from __future__ import annotations

from rota.store.worker_keys import forget_worker_keys
from tests.store.rows import Rows


async def test_keys_are_deleted_a_month_after_their_end(rows: Rows) -> None:
    for days in (29, 31):
        await rows.connection.execute(
            """insert into worker_keys (public_id, secret_hash, pool, uses, expires_at)
                select $1, '', id, 1, now() - make_interval(days => $2) from pools limit 1""",
            f"ended-{days}",
            days,
        )
    await forget_worker_keys(rows.connection, rows=100)
    left = await rows.connection.fetch("select public_id from worker_keys")
    assert [row["public_id"] for row in left] == ["ended-29"]
