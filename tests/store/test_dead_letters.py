"""Dead letters: each filter gives exactly what it says, whatever a page looks at, and plans keep to indexes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.model.attempt import Outcome
from rota.model.event import LIMITS
from rota.model.request.operation import Selection, Verb
from rota.model.task import State
from rota.settle.settlement import settle
from rota.store import dead_letters
from rota.store.cancel_and_rerun import rerun_task
from rota.store.dead_letters import DeadFilter, list_dead
from rota.store.reading import NEWEST
from rota.store.selection import read_part
from rota.wire import Failure
from tests.store.plans.explained import Explained
from tests.store.rows import Rows

LETTERS = 40
FAILURES = ["timeout", "oom", "exit-code"]
GRAPH = 10**9


@pytest.fixture
async def letters(rows: Rows) -> list[int]:
    """Letter n: named by n % 4, tagged every fifth, of a schedule every tenth, by its own trouble, n hours old."""
    fence = await rows.lead()
    made = [await rows.running(fence, name=f"name-{n % 4}") for n in range(LETTERS)]
    reports = [
        rows.ended(task, Outcome.ERROR, failure=Failure(FAILURES[n % 3], f"letter {n} Said No"))
        for n, task in enumerate(made)
    ]
    await settle(rows.connection, fence, reports)
    await rows.connection.executemany(
        """update tasks set tags = $2, schedule = $3 where id = $1""",
        [
            (task, '{"team": "ml", "n": "1"}' if n % 5 == 0 else None, GRAPH + rows.tenant if n % 10 == 0 else None)
            for n, task in enumerate(made)
        ],
    )
    await rows.connection.executemany(
        "update dead_letters set died_at = now() - $2 * interval '1 hour' where task = $1",
        [(task, n) for n, task in enumerate(made)],
    )
    await rows.connection.executemany(
        "insert into graph_tasks (graph, task, tenant, name, place) values ($1, $2, $3, $4, 1)",
        [(GRAPH + rows.tenant, task, rows.tenant, f"m{n}") for n, task in enumerate(made) if n % 7 == 0],
    )
    return made


def hours(number: float) -> datetime:
    return datetime.now(UTC) - timedelta(hours=number)


CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "everything": ({}, lambda n: True),
    "a name": ({"name": "name-2"}, lambda n: n % 4 == 2),
    "a tag": ({"tag": ("team", "ml")}, lambda n: n % 5 == 0),
    "a limit": ({"failure": "oom"}, lambda n: n % 3 == 1),
    "a reason": ({"reason": "7 said no"}, lambda n: n % 10 == 7),
    "a reason nobody has": ({"reason": "%"}, lambda n: False),
    "a time": ({"since": hours(9.5), "until": hours(4.5)}, lambda n: 5 <= n <= 9),
    "several": ({"name": "name-0", "failure": "timeout"}, lambda n: n % 12 == 0),
    "a graph": ({"graph": GRAPH}, lambda n: n % 7 == 0),
    "a schedule": ({"schedule": GRAPH}, lambda n: n % 10 == 0),
}


async def test_every_filter_gives_exactly_what_it_says_however_little_a_page_looks_at(
    rows: Rows, letters: list[int]
) -> None:
    for what, (save_request, right) in CASES.items():
        own = {
            name: value + rows.tenant if name in ("graph", "schedule") else value
            for name, value in save_request.items()
        }
        wanted = DeadFilter(**own)
        expected = [task for n, task in enumerate(letters) if right(n)]
        for walk, limit in ((2000, 50), (7, 3)):
            found: list[int] = []
            before: int | None = NEWEST
            while before is not None:
                page = await list_dead(rows.connection, rows.tenant, wanted, before=before, limit=limit, walk=walk)
                assert len(page.rows) <= limit
                found += [row["id"] for row in page.rows]
                before = page.next
            assert found == expected[::-1], (what, walk)
        chosen = Selection(states=(State.FAILED,), until=own.pop("until", hours(-1)), **own)
        assert await selected(rows, rows.tenant, chosen, most=1000) == expected[::-1], what
        assert await selected(rows, rows.tenant, chosen, most=2) == expected[::-1], what
    assert set(FAILURES[:2]) <= LIMITS.keys()
    everything = Selection(states=(State.FAILED,), until=hours(-1))
    assert await selected(rows, rows.tenant + 1, everything, most=10) == []


async def selected(rows: Rows, tenant: int, wanted: Selection, *, most: int) -> list[int]:
    """All that an operation would take, part by part."""
    found: list[int] = []
    before: int | None = NEWEST
    while before is not None:
        part = await read_part(rows.connection, tenant, Verb.DISCARD, wanted, before=before, most=most)
        assert len(part.tasks) <= most
        found += part.tasks
        before = part.next
    return found


async def test_looking_for_letters_keeps_to_indexes(rows: Rows, letters: list[int]) -> None:
    explained = Explained(rows.connection)
    wanted = DeadFilter(name="name-1", tag=("team", "ml"), failure="oom", graph=GRAPH + rows.tenant)
    await list_dead(explained, rows.tenant, wanted, before=NEWEST, limit=5)  # type: ignore[arg-type]
    await dead_letters.read_runs(explained, letters[0], rows.tenant)  # type: ignore[arg-type]
    scans = {kind for kind, table, ran in explained.scans() if ran and not table.startswith("pools")}
    assert scans <= {"Index Scan", "Index Only Scan", "Tid Scan"}, scans


async def test_the_runs_of_one_piece_of_work_are_a_chain(rows: Rows) -> None:
    fence = await rows.lead()
    chain = [await rows.running(fence)]
    for _ in range(2):
        await settle(rows.connection, fence, [rows.ended(chain[-1], Outcome.ERROR)])
        again = await rows.connection.fetchval("select take_task_ids(1)")
        made = await rerun_task(rows.connection, chain[-1], rows.tenant, new_id=again, user="tester", server=0)
        assert made.ready is not None
        await rows.start(fence, again)
        chain.append(again)
    for task in chain:
        assert [row["id"] for row in await dead_letters.read_runs(rows.connection, task, rows.tenant)] == chain
    assert await dead_letters.read_runs(rows.connection, chain[0], rows.tenant + 1) == []
