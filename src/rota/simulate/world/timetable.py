"""Simulated schedules: the schedules of a seed, their clock, their owners, and the ticker of a server.

The database's clock for schedules runs many times faster than the world, so that hours around a daylight-saving change
pass during the faults, and may be set an hour back or forth. The batch and the owners' edits are production code;
waiting between batches mirrors `timetable/ticker.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

from rota.cluster.leases import Lease
from rota.model.schedule.schedule import Missed, Rule, RuleKind, Schedule
from rota.simulate.world.database.connection import Fenced, Lost
from rota.simulate.world.timekeeper import ScheduleRecord
from rota.store import schedules
from rota.store.queue import Fence
from rota.store.schedules import HEAD, TICKER_POOL, DueCursor, Occurrence
from rota.timetable import owner_edits
from rota.timetable.batch import TermOver, run_batch
from rota.timetable.due import first_cursor
from rota.timetable.runs import Made, Wanted

if TYPE_CHECKING:
    from rota.simulate.world.server import Server
    from rota.simulate.world.world import World

SHARE = 0.2  # of the worlds have schedules
# Daylight-saving changes. Lord Howe's are half an hour; Dublin's standard time is in summer.
_CHANGES = (
    ("Europe/Berlin", "2026-03-29T01:00Z"), ("Europe/Berlin", "2026-10-25T01:00Z"),
    ("Europe/Dublin", "2026-03-29T01:00Z"), ("Europe/Dublin", "2026-10-25T01:00Z"),
    ("America/New_York", "2026-03-08T07:00Z"), ("America/New_York", "2026-11-01T06:00Z"),
    ("America/St_Johns", "2026-03-08T05:30Z"), ("America/St_Johns", "2026-11-01T04:30Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00Z"), ("Australia/Lord_Howe", "2026-10-03T15:30Z"),
)  # fmt: skip


@dataclass(slots=True)
class Timetable:
    """The database's rows of schedules, and its clock for them."""

    start: datetime
    speed: float
    rows: dict[int, Schedule]
    occurrences: set[tuple[int, datetime]]
    jumped: timedelta = timedelta(0)

    def now(self, world_seconds: float) -> datetime:
        elapsed = timedelta(seconds=world_seconds * self.speed)
        return self.start + self.jumped + elapsed


def draw_timetable(chance: Random) -> tuple[Timetable, dict[int, ScheduleRecord]] | None:
    """Up to six schedules, most of them shortly before a daylight-saving change; None in most worlds."""
    if chance.random() >= SHARE:
        return None
    zone, change = chance.choice(_CHANGES)
    changes_at = datetime.fromisoformat(change).astimezone(UTC)
    start = changes_at - timedelta(minutes=chance.randint(40, 110))
    timetable = Timetable(start, chance.choice((60.0, 120.0, 240.0)), {}, set())
    records: dict[int, ScheduleRecord] = {}
    for number in range(1, 1 + chance.choice((1, 2, 3, 6))):
        own = zone if chance.random() < 0.8 else chance.choice(("UTC", "Asia/Kathmandu", "America/Sao_Paulo"))
        rule, records[number] = _rule(chance, own, changes_at, start)
        row = Schedule(
            id=number,
            tenant=1,
            name=f"schedule{number}",
            user="x",
            rule=rule,
            request="",
            missed=chance.choice(list(Missed)),
            missed_limit=chance.choice((1, 2, 100)),
        )
        following, before = first_cursor(row, start)
        timetable.rows[number] = replace(row, next_at=following, previous_at=before)
    return timetable, records


def _rule(chance: Random, zone: str, changes_at: datetime, start: datetime) -> tuple[Rule, ScheduleRecord]:
    kind = chance.random()
    if kind < 0.5:
        shown = (changes_at - timedelta(minutes=1)).astimezone(ZoneInfo(zone))
        minute = (shown.hour * 60 + shown.minute + chance.randint(-70, 70)) % 1440
        clock = f"{minute // 60:02}:{minute % 60:02}"
        return Rule(RuleKind.DAILY, clock, zone), ScheduleRecord(zone, start, at_minute=minute)
    if kind < 0.7:
        step = chance.choice((10, 15, 20, 30))
        minutes = frozenset(range(0, 60, step))
        return Rule(RuleKind.CRON, f"*/{step} * * * *", zone), ScheduleRecord(zone, start, minutes=minutes)
    if kind < 0.85:
        minute = chance.randint(0, 59)
        return Rule(RuleKind.HOURLY, str(minute), zone), ScheduleRecord(zone, start, minutes=frozenset({minute}))
    period = timedelta(minutes=chance.choice((7, 25, 61)))
    text = f"PT{int(period.total_seconds())}S"
    return Rule(RuleKind.EVERY, text, zone, start), ScheduleRecord(zone, start, every=period)


class Owners:
    """The owners of schedules: they pause and resume them and skip runs, through any server."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.kernel.random

    def schedule(self) -> None:
        for _ in range(self._chance.choice((0, 2, 6))):
            self._world.kernel.at(self._chance.uniform(2, self._world.options.seconds), self._change)

    def _change(self) -> None:
        server = self._chance.choice(self._world.servers)
        assert self._world.timetable is not None, "it has owners"
        one = self._world.timetable.rows[self._chance.choice(sorted(self._world.timetable.rows))]
        if server is not None and server.alive and server.paused_until <= self._world.kernel.now:
            request = "resume" if one.paused else self._chance.choice(("pause", "pause", "skip-next"))
            server.spawn(self._edit(server, one.name, request))

    async def _edit(self, server: Server, name: str, request: str) -> None:
        connection = server.connect()
        try:
            async with connection.transaction():
                one = await schedules.read_schedule(connection, 1, name, lock=True)
                assert one is not None, "schedules are never removed here"
                if request == "pause":
                    await owner_edits.pause(connection, one)
                elif request == "resume":
                    await owner_edits.resume(connection, one, await schedules.transaction_time(connection))
                elif one.next_at is not None:
                    await owner_edits.skip_next(connection, one, "its owner")
                self._world.story.tell(server.name, f"{name}: {request}")
                self._world.sometimes.hit("a schedule was paused" if request == "pause" else "a schedule was edited")
        except Lost:
            return  # carried out or not; the owner may edit again later


class Ticker:
    """Campaigns for the ticker's lease and ticks, until its server dies."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._world: World = server.world

    async def run(self) -> None:
        while True:
            await self._server.pause_of_campaign()
            lease = await self._server.acquire(TICKER_POOL)
            if lease is not None:
                await self._term(lease)
                self._server.drop(lease)

    async def _term(self, lease: Lease) -> None:
        fence = Fence(lease.pool, lease.epoch, lease.holder)
        fenced = Fenced(self._server.store, self._server, (lease.pool, lease.epoch, lease.holder))
        self._world.story.tell(self._server.name, f"ticks in epoch …{lease.epoch % 10**9}")
        while lease.valid():
            pause = self._world.settings.timings.poll_seconds
            try:
                connection = cast(Any, await fenced.get())
                cursor: DueCursor | None = HEAD
                while cursor is not None and lease.valid():
                    cursor = (await run_batch(connection, fence, self._make, cursor)).next
                seconds = await schedules.seconds_to_next(connection)
            except TermOver:
                self._world.sometimes.hit("a ticker was fenced out")
                return
            except Lost:
                fenced.lost()
                seconds = None
            if seconds is not None:
                pause = min(pause, max(0.0, seconds))
            await self._server.sleep(pause + 0.001)

    async def _make(self, connection: Any, wanted: Sequence[Wanted]) -> Made:
        """Writes occurrences as production does; a task is only an entry in the timekeeper's record."""
        made = Made()
        if not wanted:
            return made
        runs = [
            Occurrence(one.schedule.id, one.instant, one.schedule.tenant, one.trigger, (number,))
            for number, one in enumerate(wanted, 1)
        ]
        ours = await schedules.insert_runs(connection, runs)
        made.occurrences = [one for one in runs if (one.schedule, one.instant) in ours]
        for one in made.occurrences:
            self._world.story.tell(
                self._server.name, f"runs schedule {one.schedule} for {one.instant:%d.%m. %H:%M:%S}Z"
            )
            self._world.timekeeper.ran(one.schedule, one.instant, self._world.timetable_now())
        return made
