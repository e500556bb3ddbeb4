"""The database refuses what the table of transitions does not allow. The cases are made from the table itself."""

from __future__ import annotations

import asyncpg
import pytest

from rota.model.task import LIVE, TRANSITIONS, State
from tests.store.rows import Rows

PAIRS = [(before, after) for before in LIVE for after in LIVE]


async def _in_state(rows: Rows, state: State) -> int:
    """A row that is in the state, however it might have come there."""
    task = await rows.task()
    await rows.connection.execute("alter table queue disable trigger check_transition")
    await rows.connection.execute(
        "update queue set state = $2, node = 1, boot = 1, epoch = 1, attempt = 1, wake_at = now() where id = $1",
        task,
        state,
    )
    await rows.connection.execute("alter table queue enable trigger check_transition")
    return task


async def test_the_trigger_allows_what_the_table_allows_and_nothing_else(rows: Rows) -> None:
    said = {(before, after): await _try(rows, await _in_state(rows, before), after) for before, after in PAIRS}
    assert said == {
        (before, after): None if after in TRANSITIONS[before] or before is after else f"{before.value} to {after.value}"
        for before, after in PAIRS
    }


async def _try(rows: Rows, task: int, after: State) -> str | None:
    """None if the change is allowed, else the end of what the trigger says."""
    try:
        await rows.connection.execute("update queue set state = $2, version = version + 1 where id = $1", task, after)
    except asyncpg.RaiseError as error:
        return str(error).removeprefix(f"illegal transition of task {task}: ")
    return None


async def test_a_change_of_state_or_attempt_must_raise_the_version(rows: Rows) -> None:
    task = await rows.task()
    with pytest.raises(asyncpg.RaiseError, match="did not rise"):
        await rows.connection.execute("update queue set state = 2 where id = $1", task)
    with pytest.raises(asyncpg.RaiseError, match="did not rise"):
        await rows.connection.execute("update queue set attempt = 1 where id = $1", task)


async def test_attempts_are_numbered_one_by_one(rows: Rows) -> None:
    task = await rows.task()
    with pytest.raises(asyncpg.RaiseError, match="went from 0 to 2"):
        await rows.connection.execute("update queue set attempt = 2, version = 1 where id = $1", task)


@pytest.mark.parametrize("state", [state for state in State if state.terminal])
async def test_no_ended_task_is_in_the_queue(rows: Rows, state: State) -> None:
    task = await _in_state(rows, State.RUNNING)
    with pytest.raises(asyncpg.PostgresError):
        await rows.connection.execute("update queue set state = $2, version = version + 1 where id = $1", task, state)


async def test_nothing_runs_without_a_node_a_boot_an_epoch_and_a_number(rows: Rows) -> None:
    task = await rows.task()
    with pytest.raises(asyncpg.CheckViolationError, match="running_means_authorised"):
        await rows.connection.execute("update queue set state = 4, version = 1 where id = $1", task)


async def test_more_attempts_than_allowed_can_not_be_counted(rows: Rows) -> None:
    task = await rows.task(attempts=2)
    with pytest.raises(asyncpg.CheckViolationError, match="attempts_within_limit"):
        await rows.connection.execute("update queue set used = 3 where id = $1", task)


async def test_an_attempt_is_recorded_once(rows: Rows) -> None:
    task = await rows.task()
    record = "insert into attempts (task, number, tenant, state, outcome) values ($1, 1, $2, 0, 2)"
    await rows.connection.execute(record, task, rows.tenant)
    with pytest.raises(asyncpg.UniqueViolationError):
        await rows.connection.execute(record, task, rows.tenant)
