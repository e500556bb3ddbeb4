"""Edits by tasks' owners: cancelling, and running dead letters again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rota.model.clock import from_us, to_us
from rota.simulate.world.contents import Contents, Inline, Statements
from rota.simulate.world.rows import CANCELLED, READY, RUNNING, Row


class Owners:
    def __init__(self, contents: Contents) -> None:
        self._in = contents
        self.statements: Statements = {
            "cancel_waiting": self._cancel_waiting,
            "cancel_running": self._cancel_running,
            "rerun_task": self._rerun_task,
        }
        self.inline: Inline = (
            ("insert into reruns", self._claim_rerun),
            ("select rerun from reruns", lambda task: [(contents.reruns[task],)]),
            ("delete from dead_letters where task", self._drop_dead_letter),
            ("insert into queue", self._queue_rerun),
        )

    def _cancel_waiting(self, ids: list[int], tenant: int, reason: str) -> list[Any]:
        self._in.fence = None
        found = []
        for number in sorted(ids):
            row = self._in.queue.get(number)
            if row is not None and row.tenant == tenant and row.state != RUNNING:
                self._in.end(row, 0, CANCELLED, 11, reason)
                found.append(Row(id=number, pool=row.pool))
        return found

    def _cancel_running(self, ids: list[int], tenant: int) -> list[Any]:
        found = []
        for number in sorted(ids):
            row = self._in.queue.get(number)
            if row is not None and row.tenant == tenant and row.state == RUNNING and not row.cancel_requested:
                row.cancel_requested = True
                row.version += 1
                self._in.auditor.cancel_wished(number, row.version)
                found.append(Row(id=number, pool=row.pool, attempt=row.attempt))
        return found

    def _claim_rerun(self, task: int, tenant: int, rerun: int) -> list[Any]:
        if task in self._in.reruns:
            return []
        self._in.reruns[task] = rerun
        return [(rerun,)]

    def _rerun_task(self, old: int, new: int, user: str, server: int) -> list[Any]:
        task = self._in.tasks[old]
        again = replace(task, id=new, key=None, after=(), not_before_us=None)
        self._in.tasks[new] = again
        return [
            Row(
                id=new, tenant=task.tenant, pool=task.pool, kind=1, name="work", lane=task.lane, priority=task.priority,
                start_by=from_us(self._in.now_us() + task.tolerance_ms * 1000), cap_ms=task.cap_ms, shape=task.shape,
                attempts=task.attempts, concurrency_key=task.concurrency_key,
                concurrency_limit=task.concurrency_limit, concurrency_global=task.concurrency_global,
                preemptible=task.preemptible,
            )
        ]  # fmt: skip

    def _drop_dead_letter(self, task: int) -> list[Any]:
        self._in.dead_letters.pop(task, None)
        self._in.auditor.redriven(task)
        return []

    def _queue_rerun(self, new: int, start_by: Any, *_: Any) -> list[Any]:
        self._in.enqueue(self._in.tasks[new], READY, None, to_us(start_by))
        return []
