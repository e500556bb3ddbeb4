"""Which image is pulled next: so many at once on the node, fewer for one tenant, and tenants take turns. Pure.

A task that waits for its image holds nothing on the node and asks again from time to time. An image that nobody has
asked for since a while is pulled no more: its tasks were cancelled, or run elsewhere.
"""

from __future__ import annotations

AT_ONCE = 4  # pulls on a node
AT_ONCE_OF_TENANT = 2
WAITING_OF_TENANT = 16  # a task whose image is not among these asks again later
STALE_SECONDS = 90.0  # three times the longest pause between two questions
REMEMBERED_SECONDS = 60.0  # how long a failed pull is not tried again: the tasks that waited for it are told
_MOST_REMEMBERED = 10_000


class PullQueue:
    def __init__(self) -> None:
        self._waiting: dict[int, dict[str, float]] = {}  # tenant, in turn → image → when it was last asked for
        self._running: dict[str, int] = {}  # image → the tenant whose turn it was
        self._failed: dict[str, float] = {}  # image → when

    def has_failed(self, image: str, now: float) -> bool:
        """It can't be had, as has just been found out."""
        failed_at = self._failed.get(image)
        return failed_at is not None and now - failed_at < REMEMBERED_SECONDS

    def ask(self, tenant: int, image: str, now: float) -> None:
        """A task of the tenant needs the image."""
        images = self._waiting.setdefault(tenant, {})
        if image not in self._running and (image in images or len(images) < WAITING_OF_TENANT):
            images[image] = now

    def next(self, now: float) -> str | None:
        """The image to pull now, if one may be; it counts as running until `ended`."""
        if len(self._running) >= AT_ONCE:
            return None
        for tenant in list(self._waiting):
            images = {
                image: asked_at
                for image, asked_at in self._waiting.pop(tenant).items()
                if image not in self._running and now - asked_at < STALE_SECONDS
            }
            image = next(iter(images), None)
            may = list(self._running.values()).count(tenant) < AT_ONCE_OF_TENANT
            if image is not None and may:
                del images[image]
            if images:
                self._waiting[tenant] = images  # behind all others: their turn comes first
            if image is not None and may:
                self._running[image] = tenant
                return image
        return None

    def ended(self, image: str, *, failed: bool, now: float) -> None:
        del self._running[image]
        self._failed.pop(image, None)
        if failed:
            self.refuse(image, now)

    def refuse(self, image: str, now: float) -> None:
        self._failed[image] = now
        if len(self._failed) > _MOST_REMEMBERED:
            del self._failed[next(iter(self._failed))]
