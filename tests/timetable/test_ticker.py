"""The ticker on a real database: every instant becomes one run or one skip, whatever happens in between."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from rota.model.schedule.schedule import Missed, Overlap, Rule, RuleKind
from rota.model.task import Lane, Scheduling, State
from rota.store.database import CONNECTION_LOST
from rota.timetable.occurrences import instants
from rota.timetable.ticker import TermOver

from .clockwork import Clockwork, spec

GRAPH = """{"tasks": [{"command": ["true"], "ref": "a", "unplaceable": "wait"},
    {"command": ["true"], "ref": "b", "after": ["a"], "unplaceable": "wait"}]}"""


async def test_an_instant_becomes_one_task_that_knows_when_it_was_meant(clockwork: Clockwork) -> None:
    schedule = await clockwork.schedule(ago=1)
    await clockwork.tick()
    await clockwork.tick()
    (run,) = await clockwork.history(schedule)
    assert run.instant == schedule.next_at
    assert run.tasks is not None
    task = await clockwork.task(run.tasks[0])
    assert (task["schedule"], task["scheduled_for"]) == (schedule.id, run.instant)
    assert (task["scheduling"], task["lane"], task["user_name"]) == (Scheduling.SCHEDULE, Lane.PERIODIC, "ann")
    shown = run.instant.isoformat().replace("+00:00", "Z")
    assert spec(task)["scheduled"] == [shown, shown, shown]  # nothing was before
    after = await clockwork.reread(schedule)
    assert (after.next_at, after.runs, after.last_tasks) == (run.instant + timedelta(minutes=1), 1, run.tasks)


async def test_late_instants_all_run_and_each_interval_begins_where_the_last_ended(clockwork: Clockwork) -> None:
    schedule = await clockwork.schedule(every="PT10S", ago=35)
    await clockwork.tick()
    history = await clockwork.history(schedule)
    assert [one.instant - history[0].instant for one in history] == [timedelta(seconds=10 * n) for n in range(4)]
    told = [spec(await clockwork.task(one.tasks[0]))["scheduled"] for one in history if one.tasks]
    assert [one[1] for one in told[1:]] == [one[2] for one in told[:-1]]  # type: ignore[index]


@pytest.mark.parametrize(("missed", "kept"), [(Missed.SKIP, 0), (Missed.ONCE, 1), (Missed.ALL, 5)])
async def test_missed_instants_follow_the_policy_and_the_rest_is_one_skip(
    clockwork: Clockwork, missed: Missed, kept: int
) -> None:
    schedule = await clockwork.schedule(every="PT5M", ago=6030, missed=missed, missed_limit=5)
    await clockwork.tick()
    skip, *runs = await clockwork.history(schedule)
    assert skip.tasks is None
    assert "missed" in (skip.reason or "")
    assert skip.instant == schedule.next_at
    assert all(one.tasks for one in runs)
    assert len(runs) == kept + 1  # and the one that came half a minute ago
    assert skip.until is not None
    assert (runs[0].instant - skip.instant).total_seconds() == 300 * (20 - kept)
    assert skip.until <= runs[0].instant


async def test_a_paused_schedule_is_left_alone(clockwork: Clockwork) -> None:
    schedule = await clockwork.schedule(ago=10, paused=True)
    await clockwork.tick()
    assert await clockwork.history(schedule) == []


async def test_overlap_skip_records_why_and_goes_on_when_the_run_has_ended(clockwork: Clockwork) -> None:
    schedule = await clockwork.schedule(every="PT10S", ago=15, overlap=Overlap.SKIP)
    await clockwork.tick()
    first, second = await clockwork.history(schedule)
    assert first.tasks is not None
    assert second.reason == f"overlap: task {first.tasks[0]} of the last run has not ended"
    await clockwork.end(*first.tasks)
    await clockwork.connection.execute(
        "update schedules set next_at = next_at - interval '9s' where id = $1", schedule.id
    )
    await clockwork.tick()
    assert (await clockwork.history(schedule))[-1].tasks is not None


async def test_overlap_queue_makes_one_run_come_after_the_other_graphs_too(clockwork: Clockwork) -> None:
    schedule = await clockwork.schedule(every="PT10S", ago=15, overlap=Overlap.QUEUE, request=GRAPH)
    await clockwork.tick()
    first, second = [one.tasks or () for one in await clockwork.history(schedule)]
    root = await clockwork.task(second[0])
    assert (root["state"], root["after_tasks"], root["upstream"]) == (State.BLOCKED, list(first), 2)
    assert (await clockwork.task(second[1]))["after_tasks"] == [second[0]]
    edges = await clockwork.connection.fetch("select parent from edges where child = $1 order by 1", second[0])
    assert [row["parent"] for row in edges] == list(first)


async def test_overlap_replace_cancels_the_last_run_and_comes_after_it(clockwork: Clockwork) -> None:
    schedule = await clockwork.schedule(ago=1, overlap=Overlap.REPLACE)
    await clockwork.tick()
    (old,) = (await clockwork.history(schedule))[0].tasks or ()
    await clockwork.connection.execute(
        "update schedules set next_at = now() - interval '1ms' where id = $1", schedule.id
    )
    await clockwork.tick()
    state = await clockwork.connection.fetchval("select state from attempts where task = $1", old)
    assert state == State.CANCELLED
    assert [task for one in clockwork.cancelled for task, _ in one.ended] == [old]
    (new,) = (await clockwork.history(schedule))[-1].tasks or ()
    assert (await clockwork.task(new))["state"] == State.READY


async def test_a_schedule_ends_at_its_end_or_after_so_many_runs(clockwork: Clockwork) -> None:
    ends = await clockwork.schedule(every="PT10S", ago=25, ends_at=await clockwork.now() - timedelta(seconds=12))
    counted = await clockwork.schedule(every="PT10S", ago=25, max_runs=2)
    await clockwork.tick()
    for one in (ends, counted):
        assert len(await clockwork.history(one)) == 2
        assert (await clockwork.reread(one)).next_at is None


async def test_jitter_delays_the_start_the_same_way_whoever_asks(clockwork: Clockwork) -> None:
    schedule = await clockwork.schedule(ago=0, jitter_ms=3_600_000)
    await clockwork.tick()
    (run,) = await clockwork.history(schedule)
    task = await clockwork.task((run.tasks or ())[0])
    assert task["state"] == State.DELAYED
    assert timedelta(0) < task["wake_at"] - run.instant <= timedelta(hours=1)


async def test_at_most_is_a_concurrency_key_of_the_schedule(clockwork: Clockwork) -> None:
    schedule = await clockwork.schedule(ago=1, at_most=3)
    await clockwork.tick()
    ((_, number),) = await clockwork.tasks_of(schedule)
    task = await clockwork.task(number)
    assert (task["concurrency_key"], task["concurrency_limit"]) == (f"schedule:{schedule.id}", 3)


async def test_what_admission_refuses_by_then_is_a_skip_that_says_so(clockwork: Clockwork) -> None:
    bad = await clockwork.schedule(ago=1, request='{"tasks": [{"command": ["true"], "pool": "gone"}]}')
    good = await clockwork.schedule(ago=1)
    await clockwork.tick()
    (skip,) = await clockwork.history(bad)
    assert "refused" in (skip.reason or "")
    assert "gone" in (skip.reason or "")
    assert len(await clockwork.tasks_of(good)) == 1


async def test_one_broken_schedule_stops_no_other_and_says_what_is_wrong(clockwork: Clockwork) -> None:
    at = await clockwork.now() - timedelta(seconds=1)
    zoneless = await clockwork.schedule(next_at=at, rule=Rule(RuleKind.DAILY, "02:30", "Gone/Zone"))
    unread = await clockwork.schedule(ago=1, request='{"tasks": [{"command": ["true"], "no_such_field": 1}]}')
    good = await clockwork.schedule(ago=0.5)
    await clockwork.tick()
    (skip,) = await clockwork.history(zoneless)
    assert "Gone/Zone" in (skip.reason or "")
    assert (await clockwork.reread(zoneless)).next_at is None
    (skip,) = await clockwork.history(unread)
    assert "no_such_field" in (skip.reason or "")
    assert len(await clockwork.tasks_of(good)) == 1


async def test_a_plan_limits_scheduled_tasks_too(clockwork: Clockwork) -> None:
    limited = await clockwork.node.caller("free")
    await clockwork.connection.execute(
        "insert into rate_limits values ($1, now() + interval '10 days')", limited.tenant_id
    )
    schedule = await clockwork.schedule(ago=1, tenant=limited.tenant_id)
    await clockwork.tick()
    (skip,) = await clockwork.history(schedule)
    assert "tasks an hour" in (skip.reason or "")


async def test_gap_and_fold_in_berlin_give_one_run_a_local_day(clockwork: Clockwork) -> None:
    for day, following in (("2024-03-31T01:00", "2024-04-01T00:30"), ("2024-10-27T00:30", "2024-10-28T01:30")):
        at = datetime.fromisoformat(day).replace(tzinfo=UTC)
        rule = Rule(RuleKind.DAILY, "02:30", "Europe/Berlin")
        schedule = await clockwork.schedule(rule=rule, next_at=at, missed=Missed.ALL, missed_limit=1000)
        await clockwork.tick()
        history = await clockwork.history(schedule)
        assert [one.instant for one in history[:2]] == [at, datetime.fromisoformat(following).replace(tzinfo=UTC)]
        assert all(one.tasks for one in history)
        assert len(history) == len(await clockwork.tasks_of(schedule))


async def test_a_tenants_connection_sees_and_changes_its_own_schedules_only(clockwork: Clockwork) -> None:
    ours, other = await clockwork.schedule(ago=1), await clockwork.node.caller()
    theirs = await clockwork.schedule(ago=1, tenant=other.tenant_id)
    await clockwork.tick()
    async with clockwork.database.tenant(other.tenant_id) as connection:
        assert [row["id"] for row in await connection.fetch("select id from schedules")] == [theirs.id]
        assert [row["schedule"] for row in await connection.fetch("select schedule from occurrences")] == [theirs.id]
        assert await connection.execute("delete from schedules") == "DELETE 1"
    assert (await clockwork.reread(ours)).runs == 1


async def test_an_old_term_writes_nothing(clockwork: Clockwork) -> None:
    schedule = await clockwork.schedule(ago=1)
    old = await clockwork.lead()
    await clockwork.lead()
    with pytest.raises(TermOver):
        await clockwork.tick(old)
    assert await clockwork.history(schedule) == []
    assert await clockwork.tasks_of(schedule) == []


async def test_two_tickers_of_one_term_at_once_double_nothing(clockwork: Clockwork) -> None:
    """Invariant I15, even where the lease was no help at all."""
    made = [await clockwork.schedule(every="PT1S", ago=20) for _ in range(20)]
    fence = await clockwork.lead()
    others = [await clockwork.database.direct("test") for _ in range(2)]
    for _ in range(3):
        await asyncio.gather(*(clockwork.ticker.tick(one, fence) for one in others))
    await clockwork.tick(fence)
    for one in others:
        await one.close()
    for schedule in made:
        await _whole(clockwork, schedule)


async def test_a_crash_between_any_two_statements_loses_and_doubles_nothing(clockwork: Clockwork) -> None:
    """Invariants I15 and I16: the backend is ended before the n-th statement, for every n."""
    schedule = await clockwork.schedule(every="PT1S", ago=5, overlap=Overlap.QUEUE, request=GRAPH)
    fence = await clockwork.lead()
    crashes = 0
    for number in range(1, 100):
        victim = _Mortal(await clockwork.database.direct("test"), clockwork, number)
        try:
            await clockwork.ticker.tick(victim, fence)  # type: ignore[arg-type]
        except CONNECTION_LOST:
            crashes += 1
            continue
        finally:
            victim.connection.terminate()
        break
    assert crashes > 8
    await clockwork.tick(fence)
    await _whole(clockwork, schedule)


class _Mortal:
    """A connection whose backend is ended before its n-th statement."""

    def __init__(self, connection: object, clockwork: Clockwork, number: int) -> None:
        self.connection = connection
        self._clockwork = clockwork
        self._left = number

    def __getattr__(self, name: str) -> object:
        real = getattr(self.connection, name)
        if name not in ("execute", "fetch", "fetchval", "fetchrow", "copy_to_table", "copy_records_to_table"):
            return real

        async def doomed(*arguments: object, **named: object) -> object:
            self._left -= 1
            if self._left == 0:
                await self._clockwork.connection.fetchval(
                    "select pg_terminate_backend($1)", self.connection.get_server_pid()
                )
            return await real(*arguments, **named)

        return doomed


async def _whole(clockwork: Clockwork, schedule: object) -> None:
    """Every instant up to the cursor has one run, and every run one set of tasks."""
    before, after = schedule, await clockwork.reread(schedule)  # type: ignore[arg-type]
    history = await clockwork.history(after)
    wanted = [before.next_at]  # type: ignore[attr-defined]
    for at in instants(after.rule, wanted[0]):
        if at >= after.next_at:  # type: ignore[operator]
            break
        wanted.append(at)
    assert [one.instant for one in history] == wanted
    listed = sorted((one.instant, task) for one in history for task in one.tasks or ())
    assert listed == await clockwork.tasks_of(after)
    assert len(wanted) >= 5


async def test_much_at_once_is_done_on_two_connections_and_once_each(clockwork: Clockwork) -> None:
    """More than two batches: the ticker itself, with its term, its lanes and its look back at the head."""
    first = await clockwork.schedule(ago=1)
    await clockwork.connection.execute(
        """insert into schedules (tenant, name, user_name, rule_kind, rule_text, zone, anchor, request, missed,
                missed_limit, overlap, next_at)
            select tenant, name || number, user_name, rule_kind, rule_text, zone, anchor, request, missed,
                missed_limit, overlap, next_at from schedules, generate_series(1, $2) number where id = $1""",
        first.id, 1_200,
    )  # fmt: skip
    await clockwork.nobody_leads()
    ticking = asyncio.create_task(clockwork.ticker.run())
    try:
        async with asyncio.timeout(60):
            while await clockwork.connection.fetchval("select count(*) from schedules where runs = 0"):
                await asyncio.sleep(0.05)
    finally:
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)
    tasks = await clockwork.connection.fetchval("select count(*) from tasks where scheduled_for = $1", first.next_at)
    runs = await clockwork.connection.fetchval("select count(*) from occurrences where instant = $1", first.next_at)
    assert (tasks, runs) == (1_201, 1_201)
