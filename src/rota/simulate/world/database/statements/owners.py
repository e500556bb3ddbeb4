"""Owners' edits: cancel, pause, hold, resume, edit waiting tasks, and rerun dead letters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rota.model.clock import from_us, to_us
from rota.simulate.world.database.contents import Subject
from rota.simulate.world.database.rows import BLOCKED, CANCELLED, DELAYED, EXPIRED, PAUSED, READY, RUNNING, Queued, Row


class Owners(Subject):
    folders = ("cancel_and_rerun", "pausing", "edits", "expiry")

    def cancel_waiting(self, ids: list[int], tenant: int, reason: str) -> list[Any]:
        self._tables.fence = None
        found = []
        for row in self._owned(ids, tenant):
            if row.state != RUNNING:
                self._tables.end(row, 0, CANCELLED, 11, reason)
                found.append(Row(id=row.id, pool=row.pool))
        return found

    def cancel_running(self, ids: list[int], tenant: int) -> list[Any]:
        found = []
        for row in self._owned(ids, tenant):
            if row.state == RUNNING and not row.cancel_requested:
                row.cancel_requested = True
                row.version += 1
                self._tables.auditor.cancel_requested(row.id, row.version)
                found.append(Row(id=row.id, pool=row.pool, attempt=row.attempt))
        return found

    def expire_tasks(self, at_most: int) -> list[Any]:
        self._tables.fence = None
        now = self._tables.now_us()
        late = [row for row in self._tables.queue.values() if row.state in (DELAYED, READY) and row.too_late(now)]
        late.sort(key=lambda row: (row.start_by_us, row.id))
        for row in late[:at_most]:
            self._tables.auditor.expired(row.id, now)
            self._tables.end(row, 0, EXPIRED, 11, "it could not start in time")
        return [Row(id=row.id, pool=row.pool) for row in late[:at_most]]

    def pause_waiting(self, ids: list[int], tenant: int, reason: str | None, user: str) -> list[Any]:
        found = []
        for row in self._owned(ids, tenant):
            if row.state in (BLOCKED, DELAYED, READY):
                row.paused_state, row.paused_us = row.state, self._tables.now_us()
                row.wake_us = row.wake_us if row.state == DELAYED else None
                row.state, row.expires = PAUSED, False
                row.version += 1
                self._tables.auditor.paused(row.id, row.version)
                found.append(Row(id=row.id, pool=row.pool))
        return found

    def pause_running(self, ids: list[int], tenant: int) -> list[Any]:
        found = []
        for row in self._owned(ids, tenant):
            if row.state == RUNNING and not row.pause_requested and not row.cancel_requested:
                row.pause_requested = True
                row.version += 1
                self._tables.auditor.pause_requested(row.id, row.version, paused=True)
                found.append(Row(id=row.id, pool=row.pool, attempt=row.attempt))
        return found

    def resume_running(self, ids: list[int], tenant: int) -> list[Any]:
        for row in self._owned(ids, tenant):
            if row.state == RUNNING and row.pause_requested:
                row.pause_requested = False
                row.version += 1
                self._tables.auditor.pause_requested(row.id, row.version, paused=False)
        return []

    def resume_paused(self, ids: list[int], tenant: int, user: str) -> list[Any]:
        found = []
        now = self._tables.now_us()
        for row in self._owned(ids, tenant):
            if row.state != PAUSED:
                continue
            still = row.paused_state == DELAYED and row.wake_us is not None and row.wake_us > now
            row.state = READY if row.paused_state == DELAYED and not still else row.paused_state
            row.expires = row.task.expires and row.attempt == 0 and row.state != BLOCKED
            row.version += 1
            if row.state != BLOCKED:
                row.start_by_us += now - row.paused_us
                row.wake_us = row.wake_us if still else row.urgent_us()
            self._tables.auditor.resumed(row.id, row.state, row.version, row.start_by_us, now)
            found.append(self._resumed(row))
        return found

    def lock_task(self, number: int, tenant: int) -> list[Any]:
        return [(row.id,) for row in self._owned([number], tenant)]

    def read_editable(self, numbers: list[int]) -> list[Any]:
        [number] = numbers
        row = self._tables.queue[number]
        lane = self._tables.lanes[row.lane]
        return [
            row.columns(
                "id state version pool cap_ms cancel_requested tolerance_ms tolerance_given",
                urgency=-row.task.priority,
                start_by=from_us(row.start_by_us),
                leeway_ms=row.leeway_ms(),
                lane_name=lane.name,
                promotes=lane.promotes,
                pool_name=f"pool{row.pool}",
            )
        ]

    def edit_waiting(
        self,
        numbers: list[int],
        pool: int | None,
        lane: int | None,
        priority: int | None,
        cap_ms: int | None,
        tolerance_ms: int | None,
        givens: list[bool],
        start_bys: list[Any],
        wholes_ms: list[int],
        not_before: Any,
    ) -> list[Any]:
        assert not_before is None, "nobody moves start times here"
        [number], [given], [start_by], [whole_ms] = numbers, givens, start_bys, wholes_ms
        row = self._tables.queue[number]
        if priority is not None:
            row.task = replace(row.task, priority=priority)
        cap_ms = cap_ms or row.task.cap_ms
        row.task = replace(row.task, cap_ms=cap_ms, tolerance_ms=whole_ms, tolerance_given=given)
        row.pool, row.lane = pool or row.pool, row.lane if lane is None else lane
        row.start_by_us = to_us(start_by)
        if row.state != DELAYED and (row.state, row.paused_state) != (PAUSED, DELAYED):
            row.wake_us = row.urgent_us() if row.state == READY else None
        row.version += 1
        self._tables.auditor.edited(
            number, row.version, row.pool, row.lane, row.start_by_us, row.task.tolerance_ms if given else None
        )
        self._tables.auditor.watch_waiting(number, self._tables.now_us())
        return [self._resumed(row)]

    def move_edges(self, children: list[int], pool: int) -> list[Any]:
        [child] = children
        for parent in self._tables.parents.get(child, ()):
            edge = self._tables.edges.get((parent, child))
            if edge is not None:
                edge.child_pool = pool
        return []

    def claim_rerun(self, task: int, tenant: int, rerun: int) -> list[Any]:
        if task in self._tables.reruns:
            return []
        self._tables.reruns[task] = rerun
        return [(rerun,)]

    def find_rerun(self, task: int) -> list[Any]:
        return [(self._tables.reruns[task],)]

    def rerun_task(self, old: int, new: int, user: str, server: int) -> list[Any]:
        again = replace(self._tables.tasks[old], id=new, key=None, after=(), not_before_us=None, expires=False)
        self._tables.tasks[new] = again
        return [Row(kind=1, name="work")]

    def drop_dead_letter(self, task: int) -> list[Any]:
        self._tables.dead_letters.pop(task, None)
        self._tables.auditor.redriven(task)
        return []

    def queue_rerun(self, new: int, work: int) -> list[Any]:
        task = self._tables.tasks[new]
        self._tables.enqueue(task, READY, None, self._tables.now_us() + task.tolerance_ms * 1000)
        return [Row(self._resumed(self._tables.queue[new]), due=False)]

    def _owned(self, ids: list[int], tenant: int) -> list[Queued]:
        found = [self._tables.queue.get(number) for number in sorted(ids)]
        return [row for row in found if row is not None and row.tenant == tenant]

    def _resumed(self, row: Queued) -> Row:
        wakes_in = None if row.wake_us is None else (row.wake_us - self._tables.now_us()) / 1e6
        return Row(self._tables.ready_row(row), pool=row.pool, wakes_in=wakes_in)
