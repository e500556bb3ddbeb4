"""Which attempt starts next: the node's resources are granted in order of arrival and never exceeded. Pure.

A leader sends a little more than fits, so that a finished run is followed at once. Waiting runs of one shape form a
queue; the oldest head that fits goes first. One that does not fit is passed over, but only so often: then everything
behind it waits until it has its grant. `Devices` assigns GPUs in thousandths of a device; fractions go where the least
is left, so that whole devices stay whole; the leader counts by the same rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rota.execute.attempts.attempt import Attempt, Phase
from rota.model.resources import Resources

_LANES_TRIED = 32
_PASSED_OVER_AT_MOST = 256


class Grants:
    def __init__(self, capacity: Resources, kinds: Mapping[str, int] | None = None) -> None:
        """`kinds`: custom resources that are devices, assigned one by one, and how many there are of each."""
        self._capacity = capacity
        self.free = capacity
        self._devices = Devices(capacity.gpus)
        self._kinds = {kind: Devices(count) for kind, count in (kinds or {}).items()}
        self._lanes: dict[bytes, deque[Attempt]] = {}
        self._arrivals = 0

    def could_ever_fit(self, grant: Resources) -> bool:
        return grant.fits_in(self._capacity)

    def wait(self, attempt: Attempt) -> None:
        self._arrivals += 1
        attempt.number = self._arrivals
        lane = self._lanes.get(attempt.shape)
        if lane is None:
            lane = self._lanes[attempt.shape] = deque()
        lane.append(attempt)

    def put_back(self, returned: list[Attempt]) -> None:
        """Puts runs back that shared another run's grant and did not begin; they keep their order of arrival."""
        for attempt in reversed(returned):
            attempt.phase = Phase.WAITING
            self._lanes.setdefault(attempt.shape, deque()).appendleft(attempt)

    def next(self) -> Attempt | None:
        """The next run to start; its grant is taken. Withdrawn runs (no longer WAITING) are skipped."""
        heads = self._heads()
        for position, head in enumerate(heads[:_LANES_TRIED]):
            if head.grant.fits_in(self.free) and self._assign(head):
                for passed in heads[:position]:
                    passed.passed_over += 1
                self.free = self.free.minus(head.grant)
                return self._take(head)
            if head.passed_over >= _PASSED_OVER_AT_MOST:
                return None
        return None

    def peek(self, shape: bytes) -> Attempt | None:
        """The run that `follow` would return."""
        lane = self._lanes.get(shape)
        if lane is None:
            return None
        while lane and lane[0].phase is not Phase.WAITING:
            lane.popleft()
        if not lane:
            del self._lanes[shape]
            return None
        if len(self._lanes) > 1 and self._is_overdue_before(lane[0]):
            return None
        return lane[0]

    def follow(self, head: Attempt) -> None:
        """Takes a peeked run: it will run after another one, on that one's grant."""
        if len(self._lanes) > 1:
            for other in self._heads():
                if other.number < head.number:
                    other.passed_over += 1
        self._take(head)

    def release(self, grant: Resources) -> None:
        self.free = self.free.plus(grant)
        assert self.free.fits_in(self._capacity), "more was released than was ever granted"

    def unassign(self, attempt: Attempt) -> None:
        """Frees its devices. The grant is released separately: a warm child may still hold it."""
        self._devices.give_back(attempt.gpus, attempt.grant.gpu_milli)
        for kind, numbers in attempt.devices:
            self._kinds[kind].give_back(numbers, 0)
        attempt.gpus, attempt.devices = (), ()

    def has_devices(self, grant: Resources) -> bool:
        """Whether the grant comes with devices of its own."""
        return bool(grant.gpus or grant.gpu_milli) or any(grant.custom.get(kind) for kind in self._kinds)

    def _assign(self, head: Attempt) -> bool:
        grant = head.grant
        if grant.gpus or grant.gpu_milli:
            assigned = self._devices.take(grant.gpus, grant.gpu_milli)
            head.gpus = assigned or ()
            if assigned is None:
                return False
        if not self._kinds or not grant.custom:
            return True
        for kind, devices in self._kinds.items():
            if amount := grant.custom.get(kind, 0):
                taken = devices.take(amount, 0)
                if taken is None:  # its grant is free, its devices still belong to a run that is ending
                    self.unassign(head)
                    return False
                head.devices = (*head.devices, (kind, taken))
        return True

    def _take(self, head: Attempt) -> Attempt:
        lane = self._lanes[head.shape]
        lane.popleft()
        if not lane:
            del self._lanes[head.shape]
        head.phase = Phase.RUNNING
        return head

    def _heads(self) -> list[Attempt]:
        heads = []
        for shape in list(self._lanes):
            lane = self._lanes[shape]
            while lane and lane[0].phase is not Phase.WAITING:
                lane.popleft()
            if lane:
                heads.append(lane[0])
            else:
                del self._lanes[shape]
        if len(heads) > 1:
            heads.sort(key=lambda attempt: attempt.number)
        return heads

    def _is_overdue_before(self, head: Attempt) -> bool:
        return any(other.number < head.number and other.passed_over >= _PASSED_OVER_AT_MOST for other in self._heads())


_WHOLE = 1000


class Devices:
    def __init__(self, count: int) -> None:
        self._free = [_WHOLE] * count

    def take(self, gpus: int, milli: int) -> tuple[int, ...] | None:
        """That many whole devices, or that many thousandths of one; None when no device has them."""
        if gpus:
            whole = [device for device, left in enumerate(self._free) if left == _WHOLE][:gpus]
            assigned = tuple(whole) if len(whole) == gpus else None
        else:
            fitting = [(left, device) for device, left in enumerate(self._free) if left >= milli]
            assigned = (min(fitting)[1],) if fitting else None
        for device in assigned or ():
            self._free[device] -= milli or _WHOLE
        return assigned

    def give_back(self, devices: tuple[int, ...], milli: int) -> None:
        for device in devices:
            self._free[device] += milli or _WHOLE
            assert self._free[device] <= _WHOLE, f"more of GPU {device} was given back than it has"
