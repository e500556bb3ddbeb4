"""Which tasks of a batch to ask about together, and the answers that nobody has asked for yet.

Pure bookkeeping: nothing here sends or waits. Whoever asks how a task ended also names the tasks that others wait for
and the neighbours that it will probably be asked about next. Answers stay encoded, so their bytes can be bounded.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

MOST_TASKS = 1_000  # in one request
LEAST_NEIGHBOURS = 16
MOST_KEPT_BYTES = 16 * 1024 * 1024


class _Numbered(msgspec.Struct):
    id: int


_number_of = msgspec.json.Decoder(_Numbered).decode


@dataclass(slots=True)
class SharedWait:
    """One request under way."""

    ids: tuple[int, ...]  # answered as soon as one of them has ended
    also: tuple[int, ...]  # reported if they have ended
    until: float = 0.0  # when it is answered at the latest, by the caller's clock
    answered: bool = False
    error: Exception | None = None


class Neighbours:
    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = ids
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._kept_bytes = 0
        self._wanted: Counter[int] = Counter()
        self._asked: dict[int, SharedWait] = {}
        self._ahead = MOST_TASKS  # how many neighbours a request names; follows how many of them had ended
        self._last_position = -1
        self._is_shared = True

    def want(self, task_id: int) -> None:
        self._wanted[task_id] += 1

    def unwant(self, task_id: int) -> None:
        self._wanted[task_id] -= 1
        if not self._wanted[task_id]:
            del self._wanted[task_id]

    def kept(self, task_id: int) -> bytes | None:
        """How the task ended, if an answer has said so. It is kept on: it may be asked for again."""
        return self._kept.get(task_id)

    def asked(self, task_id: int) -> SharedWait | None:
        """The request under way that waits for this task."""
        return self._asked.get(task_id)

    def begin(self, position: int) -> SharedWait:
        """A request for the task at this position and those that others wait for; it names neighbours too."""
        own = self.ids[position]
        ids = [own]
        if self._is_shared:
            ids += [one for one in self._wanted if one != own and one not in self._asked][: MOST_TASKS - 1]
        also = self._neighbours(position, set(ids)) if self._is_shared else []
        wait = SharedWait(tuple(ids), tuple(also))
        self._asked.update(dict.fromkeys(ids, wait))
        self._last_position = position
        return wait

    def close(self, wait: SharedWait) -> None:
        for one in wait.ids:
            if self._asked.get(one) is wait:
                del self._asked[one]

    def ask_alone(self) -> None:
        """From now on each request names one task: one of the batch is gone, and the others must not suffer for it."""
        self._is_shared = False

    def keep(self, wait: SharedWait, answers: Iterable[msgspec.Raw]) -> dict[int, bytes]:
        """Keeps the answers, up to a number of bytes; the oldest go first. Returns those of this request, by task."""
        found = {_number_of(one).id: bytes(one) for one in answers}
        for task_id, body in found.items():
            self._kept_bytes += len(body) - len(self._kept.pop(task_id, b""))
            self._kept[task_id] = body
        while self._kept_bytes > MOST_KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])
        if wait.also:
            ended = sum(one in found for one in wait.also)
            self._ahead = min(max(4 * ended, LEAST_NEIGHBOURS), MOST_TASKS)
        return found

    def _neighbours(self, position: int, ids: set[int]) -> list[int]:
        room = min(self._ahead, MOST_TASKS - len(ids))
        step = -1 if position < self._last_position else 1  # handles may be asked in the reverse order
        chosen: list[int] = []
        position += step
        while 0 <= position < len(self.ids) and len(chosen) < room:
            one = self.ids[position]
            if one not in ids and one not in self._kept and one not in self._asked:
                chosen.append(one)
            position += step
        return chosen
