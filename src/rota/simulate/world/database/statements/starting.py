"""Authorising starts, and finding the starts that a lost reply authorised."""

from __future__ import annotations

from typing import Any

from rota.simulate.world.database.contents import Contents, Statements
from rota.simulate.world.database.rows import DELAYED, READY, RUNNING


class Starting:
    def __init__(self, contents: Contents) -> None:
        self._tables = contents
        self.statements: Statements = {
            "queue/start_attempts": self._start_attempts,
            "queue/find_started": self._find_started,
        }

    def _start_attempts(
        self,
        pool: int,
        epoch: int,
        holder: object,
        ids: list[int],
        versions: list[int],
        nodes: list[int],
        boots: list[int],
        graces: list[int],
    ) -> list[Any]:
        if not self._tables.fenced(pool, epoch, holder):
            return []
        now = self._tables.now_us()
        started = []
        for number, version, node, boot, grace in zip(ids, versions, nodes, boots, graces, strict=True):
            row = self._tables.queue.get(number)
            if row is None or row.version != version or row.pool != pool:
                continue
            if row.state != READY and not (row.state == DELAYED and (row.wake_us or 0) <= now):
                continue
            if row.too_late(now) or node in self._tables.draining:
                continue
            row.state, row.wake_us, row.expires = RUNNING, None, False
            row.attempt += 1
            row.version += 1
            row.node, row.boot, row.epoch, row.grace_ms, row.started_us = node, boot, epoch, grace, now
            self._tables.auditor.started(number, row.version, row.attempt, node, boot, pool, epoch, now)
            started.append((number, row.attempt, 1, "work", "{}", row.task.key, None))
        return started

    def _find_started(
        self, epoch: int, ids: list[int], versions: list[int], nodes: list[int], boots: list[int]
    ) -> list[Any]:
        found = []
        for number, version, node, boot in zip(ids, versions, nodes, boots, strict=True):
            row = self._tables.queue.get(number)
            if (
                row is not None
                and row.version > version
                and (row.state, row.epoch, row.node, row.boot)
                == (
                    RUNNING,
                    epoch,
                    node,
                    boot,
                )
            ):
                found.append((number, row.attempt, 1, "work", "{}", row.task.key, None))
        return found
