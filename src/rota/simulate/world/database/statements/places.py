"""Places of concurrency keys that are counted across pools, and the pools that wait for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.model.clock import from_us
from rota.simulate.world.database.contents import Contents, Subject
from rota.simulate.world.database.rows import RUNNING, Row

FORGOTTEN_AFTER_US = 10_000_000  # a pool that stopped asking no longer counts

Key = tuple[int, str]  # tenant, name


@dataclass(slots=True)
class Wait:
    since_us: int
    seen_us: int


class Places(Subject):
    folders = ("concurrency_keys",)

    def __init__(self, contents: Contents) -> None:
        super().__init__(contents)
        self._held: dict[int, tuple[Key, int]] = {}  # task → key, pool
        self._waits: dict[Key, dict[int, Wait]] = {}  # key → pool → wait

    def take_places(
        self, pool: int, tasks: list[int], tenants: list[int], names: list[str], limits: list[int]
    ) -> list[Any]:
        now = self._tables.now_us()
        wanted: dict[Key, list[tuple[int, int]]] = {}
        for task, tenant, name, limit in sorted(zip(tasks, tenants, names, limits, strict=True)):
            wanted.setdefault((tenant, name), []).append((task, limit))
        taken = []
        for key, asked in wanted.items():
            if self._tables.cooled.get(key, 0) > now:
                self._tables.sometimes.hit("a key cooled down")
                continue
            place = self._count(key, None) + self._ahead(key, pool)
            got = 0
            for task, limit in asked:
                place += 1
                if place <= limit and task not in self._held:
                    self._held[task] = (key, pool)
                    taken.append(Row(task=task))
                    got += 1
            waits = self._waits.setdefault(key, {})
            if got == len(asked):
                waits.pop(pool, None)
                continue
            self._tables.sometimes.hit("no place left of a key")
            own = waits.setdefault(pool, Wait(now, now))
            own.seen_us = now
            if got:
                own.since_us = now
        return taken

    def _count(self, key: Key, only: int | None) -> int:
        return sum(held == key and only in (None, pool) for held, pool in self._held.values())

    def _ahead(self, key: Key, pool: int) -> int:
        """The number of other pools that have waited longer and still wait."""
        now = self._tables.now_us()
        waits = self._waits.get(key, {})
        since = waits[pool].since_us if pool in waits else now
        return sum(
            other != pool and wait.since_us < since and wait.seen_us > now - FORGOTTEN_AFTER_US
            for other, wait in waits.items()
        )

    def give_places_back(self, tasks: list[int], pool: int) -> list[Any]:
        keys = sorted({self._held.pop(task)[0] for task in tasks if task in self._held})
        return [Row(tenant=key[0], key=key[1], pools=sorted(set(self._waits.get(key, ())) - {pool})) for key in keys]

    def watch_keys(self, pool: int, tenants: list[int], names: list[str]) -> list[Any]:
        wanted = list(zip(tenants, names, strict=True))
        for key, waits in self._waits.items():
            if key not in wanted:
                waits.pop(pool, None)
            elif pool in waits:
                waits[pool].seen_us = self._tables.now_us()
        return [
            Row(
                tenant=key[0],
                key=key[1],
                elsewhere=self._count(key, None) - self._count(key, pool) + self._ahead(key, pool),
            )
            for key in wanted
        ]

    def cool_key(self, tenant: int, key: str, milliseconds: float) -> list[Any]:
        until_us = self._tables.now_us() + int(milliseconds * 1000)
        self._tables.cooled[tenant, key] = until_us
        self._tables.auditor.key_cooled(tenant, key, until_us)
        return [(from_us(until_us),)]

    def read_cooled(self) -> list[Any]:
        now = self._tables.now_us()
        return [
            Row(tenant=key[0], key=key[1], cooled_until=from_us(until_us))
            for key, until_us in sorted(self._tables.cooled.items())
            if until_us > now
        ]

    def sweep_places(self, pool: int) -> list[Any]:
        swept = []
        for task, (_, own) in list(self._held.items()):
            row = self._tables.queue.get(task)
            if own == pool and (row is None or row.state != RUNNING):
                del self._held[task]
                swept.append(Row(task=task))
        assert not swept, f"places of {swept} were not given back with their attempts"
        return swept
