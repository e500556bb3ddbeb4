"""Settlement: ends of attempts, requeued tasks, and released dependents."""

from __future__ import annotations

from typing import Any

from rota.model.clock import from_us, to_us
from rota.model.task import State, Upstream
from rota.simulate.world.database.contents import Subject
from rota.simulate.world.database.rows import BLOCKED, DELAYED, DONE, PAUSED, READY, RUNNING, Queued, Row


class Settling(Subject):
    folders = ("settlement",)

    def _current(self, number: int, attempt: int, boot: int) -> Queued | None:
        row = self._tables.queue.get(number)
        if row is None or row.state != RUNNING:
            return None
        return row if row.attempt == attempt and row.boot == boot else None

    def settle_done(
        self, pool: int, epoch: int, holder: object, ids: list[int], attempts: list[int], boots: list[int], *_: Any
    ) -> list[Any]:
        if not self._tables.fenced(pool, epoch, holder):
            return [Row(fenced=0, tasks=[], places=[])]
        tasks: list[int] = []
        places: list[int] = []
        for number, attempt, boot in zip(ids, attempts, boots, strict=True):
            row = self._current(number, attempt, boot)
            if row is None:
                self._tables.sometimes.hit("result superseded")
                continue
            if row.cancel_requested:
                self._tables.sometimes.hit("cancel lost to success")
            self._tables.end(row, row.attempt, DONE, 1)
            tasks.append(number)
            if row.task.concurrency_global:
                places.append(number)
        return [Row(fenced=1, tasks=tasks, places=places)]

    def lock_attempts(self, ids: list[int], attempts: list[int], boots: list[int]) -> list[Any]:
        now = from_us(self._tables.now_us())
        found = []
        for number, attempt, boot in zip(ids, attempts, boots, strict=True):
            row = self._current(number, attempt, boot)
            if row is None:
                self._tables.sometimes.hit("result superseded")
                continue
            found.append(
                row.columns(
                    "id attempt tenant node used losses attempts cancel_requested pause_requested lane"
                    " backoff_ms backoff_limit_ms",
                    start_by=from_us(row.start_by_us),
                    promotes=row.task.tolerance_given and self._tables.lanes[row.lane].promotes,
                    now=now,
                )
            )
        return found

    def correct_lost(self, *_: Any) -> list[Any]:
        """How long attempts ran is not modelled."""
        return []

    def end_tasks(self, ids: list[int], numbers: list[int], outcomes: list[int], *rest: Any) -> list[Any]:
        states, reasons = rest[-2:]
        found = []
        for index, number in enumerate(ids):
            row = self._tables.queue.get(number)
            if row is not None:
                self._tables.end(row, numbers[index], int(states[index]), int(outcomes[index]), reasons[index])
                found.append(Row(id=number, place=row.task.concurrency_global and numbers[index] > 0))
        return found

    def requeue_tasks(self, ids: list[int], numbers: list[int], outcomes: list[int], *rest: Any) -> list[Any]:
        used, losses, lanes, paused, wakes = rest[-5:]
        found = []
        for index, number in enumerate(ids):
            row = self._tables.queue.get(number)
            if row is None:
                continue
            wake = wakes[index]
            row.state = READY if wake is None else DELAYED
            if paused[index]:
                row.paused_state, row.paused_us, row.state = row.state, self._tables.now_us(), PAUSED
                self._tables.sometimes.hit("a running task was paused")
            row.pause_requested = False
            row.version += 1
            row.used, row.losses, row.lane = used[index], losses[index], int(lanes[index])
            row.wake_us = (None if paused[index] else row.urgent_us()) if wake is None else to_us(wake)
            row.node = row.boot = row.epoch = None
            self._tables.auditor.requeued(
                number,
                numbers[index],
                int(outcomes[index]),
                row.state,
                row.version,
                row.used,
                row.losses,
                None if wake is None else row.wake_us,
                row.lane,
                self._tables.now_us(),
                self._tables.fence,
            )
            found.append(self._tables.ready_row(row))
        return found

    def resolve_edges(self, parents: list[int], state: int) -> list[Any]:
        found = []
        for parent in parents:
            for child in self._tables.children.get(parent, ()):
                edge = self._tables.edges.get((parent, child))
                if edge is not None and edge.parent_state is None:
                    edge.parent_state = int(state)
                    found.append(Row(child=child, child_pool=edge.child_pool))
        return found

    def read_fates(self, children: list[int], pool: int) -> list[Any]:
        found = []
        for child in sorted(children):
            row = self._tables.queue.get(child)
            if row is None or row.pool != pool or row.state != BLOCKED:
                continue
            parents = self._tables.parents.get(child, ())
            edges = [edge for parent in parents if (edge := self._tables.edges.get((parent, child)))]
            if not edges:
                continue
            ended = [edge for edge in edges if edge.parent_state is not None]
            if len(ended) > 1 and len(ended) == len(edges):
                self._tables.sometimes.hit("fan-in race")
            culprits = [edge for edge in ended if not Upstream(edge.upstream).met_by(State(edge.parent_state or 0))]
            first = min(culprits, key=lambda edge: edge.parent, default=None)
            fate = Row(id=child, waits=len(ended) < len(edges))
            if first is not None:
                fate |= {"culprit": first.parent, "culprit_state": first.parent_state}
            found.append(fate)
        return found

    def release_tasks(self, ids: list[int]) -> list[Any]:
        self._tables.drop_edges(ids)
        now = self._tables.now_us()
        found = []
        for number in ids:
            row = self._tables.queue.get(number)
            if row is None or row.state != BLOCKED:
                continue
            later = row.task.not_before_us is not None and row.task.not_before_us > now
            row.state, row.expires = DELAYED if later else READY, row.task.expires
            row.version += 1
            row.start_by_us = max(row.start_by_us, now + row.task.tolerance_ms * 1000)
            row.wake_us = row.task.not_before_us if later else row.urgent_us()
            self._tables.auditor.released(number, row.state, row.version, row.start_by_us, self._tables.fence)
            found.append(self._tables.ready_row(row))
        return found
