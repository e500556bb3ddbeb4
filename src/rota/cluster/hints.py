"""Hints between nodes: "your pool has something new". Coalesced, sent over HTTP, never relied upon.

A lost hint does no harm, because every leader polls. So sending never blocks or retries, and a hint carries only
numbers.
"""

from __future__ import annotations

import asyncio

import httpx
import msgspec
import structlog

from rota import tls
from rota.model.queue import OrderKey

log = structlog.get_logger()

SEND_SECONDS = 2.0


class Hint(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pool: int
    arrivals: dict[int, OrderKey] = {}  # tenant → how far forward in its order
    other_lanes: dict[int, list[OrderKey]] = {}  # tenant → likewise in further lanes: only the leader can compare lanes
    timers: dict[int, float] = {}  # tenant → seconds until the first comes due
    cancelled: list[tuple[int, int]] = []  # (task, attempt) to stop
    gone: list[int] = []  # tasks cancelled, held back or edited while waiting
    poll: bool = False  # rows changed that only a poll reads: edges resolved, places returned, keys cooled down
    paused: list[tuple[int, int]] = []  # (task, attempt) to stop for a while
    caps: list[tuple[int, int, int]] = []  # (task, attempt, cap in ms) that changed

    def note_arrival(self, tenant: int, order: OrderKey) -> None:
        """Keeps the first position in each lane."""
        first = self.arrivals.setdefault(tenant, order)
        if first[0] == order[0]:
            self.arrivals[tenant] = min(first, order)
            return
        by_lane = {each[0]: each for each in self.other_lanes.get(tenant, ())}
        by_lane[order[0]] = min(order, by_lane.get(order[0], order))
        self.other_lanes[tenant] = list(by_lane.values())

    def all_arrivals(self) -> list[tuple[int, OrderKey]]:
        further = [(tenant, order) for tenant, orders in self.other_lanes.items() for order in orders]
        return [*self.arrivals.items(), *further]

    def merge(self, other: Hint) -> None:
        for tenant, order in other.all_arrivals():
            self.note_arrival(tenant, order)
        for tenant, seconds in other.timers.items():
            self.timers[tenant] = min(self.timers.get(tenant, seconds), seconds)
        self.cancelled += other.cancelled
        self.paused += other.paused
        self.gone += other.gone
        self.poll |= other.poll
        self.caps += other.caps


class HintSender:
    """One pending hint per pool, sent after the one before it."""

    def __init__(self, secret: str) -> None:
        self._client = httpx.AsyncClient(
            timeout=SEND_SECONDS, headers={"authorization": f"Bearer {secret}"}, trust_env=False, verify=tls.trusted()
        )
        self._pending: dict[tuple[str, int], Hint] = {}
        self._sending: set[asyncio.Task[None]] = set()

    def send(self, url: str, hint: Hint) -> None:
        key = (url, hint.pool)
        waiting = self._pending.get(key)
        if waiting is not None:
            waiting.merge(hint)
            return
        self._pending[key] = hint
        task = asyncio.create_task(self._send(key), name="hint")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        await self._client.aclose()

    async def _send(self, key: tuple[str, int]) -> None:
        await asyncio.sleep(0)  # let hints of the same moment join
        hint = self._pending.pop(key)
        try:
            await self._client.post(f"{key[0]}/internal/hint", content=msgspec.json.encode(hint))
        except httpx.HTTPError as error:
            log.debug("hint.lost", url=key[0], error=repr(error))
