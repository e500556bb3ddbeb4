"""Acquiring, renewing and releasing a pool's lease. It expires by the database's clock."""

from __future__ import annotations

from typing import Any

from rota.simulate.world.database.contents import Subject
from rota.simulate.world.database.rows import Lease


class Leases(Subject):
    folders = ("leases",)

    def hold_fence(self, pool: int, epoch: int, holder: object) -> list[Any]:
        return [(1,)] if self._tables.fenced(pool, epoch, holder) else []

    def acquire_lease(self, pool: int, holder: object, seconds: Any, above: int) -> list[Any]:
        lease = self._tables.leases.setdefault(pool, Lease())
        now = self._tables.now_us()
        if not (lease.expires_us < now or lease.holder == holder):
            return []
        lease.epoch, lease.holder = max(lease.epoch + 1, now, above + 1), holder
        lease.expires_us = now + int(seconds.total_seconds() * 1_000_000)
        until_us = now + int(seconds.total_seconds() * 1e6)
        self._tables.auditor.lease_acquired(pool, lease.epoch, self._tables.process, now, until_us)
        return [(lease.epoch,)]

    def renew_lease(self, pool: int, epoch: int, holder: object, seconds: Any) -> list[Any]:
        lease = self._tables.leases[pool]
        now = self._tables.now_us()
        if lease.epoch != epoch or lease.holder != holder or lease.expires_us <= now:
            return []
        lease.expires_us = now + int(seconds.total_seconds() * 1_000_000)
        self._tables.auditor.lease_renewed(pool, epoch, now + int(seconds.total_seconds() * 1e6))
        return [(epoch,)]

    def release_lease(self, pool: int, epoch: int, holder: object) -> list[Any]:
        lease = self._tables.leases[pool]
        if lease.epoch == epoch and lease.holder == holder:
            lease.expires_us = self._tables.now_us()
            self._tables.auditor.lease_renewed(pool, epoch, lease.expires_us)
        return []
