"""One batch of an operation: selects the next tasks, changes them as single requests do, and what leaders must hear.

All of it is in the caller's transaction, which holds the lock of the operation. It never raises because of a single
task: a task that can't be changed is counted, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rota.admit import edits as judged_edits
from rota.admit.edits import check_pool
from rota.admit.facts_cache import FactsCache
from rota.admit.ids import IdBlocks
from rota.model.errors import FaultList
from rota.model.queue import ReadyTask
from rota.model.request.operation import Verb
from rota.model.task import State
from rota.store import cancel_and_rerun, dead_letters, edits, pausing, rerun
from rota.store.audit import link_tasks
from rota.store.cancel_and_rerun import Cancelled
from rota.store.database import AnyConnection
from rota.store.edits import Edited
from rota.store.operations import Operation, Progress
from rota.store.pausing import Resumed
from rota.store.selection import FEWEST_EXAMINED, read_part

# Small enough that a leader, and whoever waits for one of the rows, does not wait long.
MOST_AT_ONCE = 2_000
MOST_COPIED_AT_ONCE = 1_000  # an edit or a new run costs several times as much as a cancel


@dataclass(slots=True)
class Batch:
    """What a batch changed, for its operation and for leaders and waiting clients."""

    operation: Operation
    progress: Progress
    examine_next: int = FEWEST_EXAMINED
    cancelled: Cancelled | None = None
    held: list[tuple[int, int]] = field(default_factory=list)  # (task, pool)
    released: list[Resumed] = field(default_factory=list)
    edited: list[Edited] = field(default_factory=list)
    ready: list[tuple[int, ReadyTask]] = field(default_factory=list)  # new runs, by pool
    changed: list[int] = field(default_factory=list)  # all of them


class Batches:
    def __init__(self, facts: FactsCache, ids: IdBlocks, *, server: Callable[[], int]) -> None:
        self._facts = facts
        self._ids = ids
        self._server = server
        self._verbs = {
            Verb.CANCEL: self._cancel,
            Verb.HOLD: self._hold,
            Verb.RELEASE: self._release,
            Verb.EDIT: self._edit,
            Verb.RETRY: self._retry,
            Verb.REQUEUE: self._retry,
            Verb.DISCARD: self._discard,
        }

    async def make(self, connection: AnyConnection, operation: Operation, examine: int) -> Batch:
        most = MOST_COPIED_AT_ONCE if operation.verb is Verb.EDIT or operation.verb.makes_tasks else MOST_AT_ONCE
        part = await read_part(
            connection,
            operation.tenant,
            operation.verb,
            operation.selection,
            before=operation.before_id,
            most=most,
            examine=examine,
        )
        batch = Batch(operation, Progress(part.next, len(part.tasks)), part.examine_next())
        if part.tasks:
            await self._verbs[operation.verb](connection, batch, sorted(part.tasks))
        if batch.changed and operation.audit is not None:
            await link_tasks(connection, batch.changed, operation.audit)
        return batch

    async def _cancel(self, connection: AnyConnection, batch: Batch, tasks: Sequence[int]) -> None:
        operation = batch.operation
        reason = cancel_and_rerun.cancelled_reason(operation.user, str(operation.changes.get("reason", "")))
        done = batch.cancelled = await cancel_and_rerun.cancel_tasks(connection, tasks, operation.tenant, reason)
        batch.changed = [task for task, _ in done.ended] + [task for task, _, _ in done.stopping]
        _count(batch, tasks, len(batch.changed))

    async def _hold(self, connection: AnyConnection, batch: Batch, tasks: Sequence[int]) -> None:
        operation = batch.operation
        sentence = pausing.held_reason(operation.user, str(operation.changes.get("reason", "")))
        batch.held = await pausing.hold_tasks(connection, tasks, operation.tenant, sentence, user=operation.user)
        held = {task for task, _ in batch.held}
        batch.changed = sorted(held)
        rest = [task for task in tasks if task not in held]
        live = await cancel_and_rerun.live_states(connection, rest, operation.tenant) if rest else {}
        running = [task for task, state in live.items() if state is State.RUNNING]
        _refuse(batch, "running", running)
        _count(batch, [task for task in tasks if task not in running], len(held))

    async def _release(self, connection: AnyConnection, batch: Batch, tasks: Sequence[int]) -> None:
        operation = batch.operation
        batch.released = await pausing.resume_tasks(connection, tasks, operation.tenant, user=operation.user)
        batch.changed = [one.task.id for one in batch.released]
        _count(batch, tasks, len(batch.released))

    async def _edit(self, connection: AnyConnection, batch: Batch, tasks: Sequence[int]) -> None:
        operation = batch.operation
        assert operation.edit is not None, "an edit has changes"
        fitting = await self._fitting(connection, batch, tasks) if operation.edit.pool is not None else tasks
        batch.edited, running = await edits.edit_tasks(
            connection, fitting, operation.tenant, operation.edit, user=operation.user
        )
        batch.changed = [one.now.task.id for one in batch.edited]
        _refuse(batch, "running", running)
        _count(batch, [task for task in fitting if task not in running], len(batch.edited))

    async def _fitting(self, connection: AnyConnection, batch: Batch, tasks: Sequence[int]) -> list[int]:
        """Those that could have been submitted to the new pool; the others are refused."""
        operation = batch.operation
        assert operation.edit is not None
        assert operation.edit.pool is not None
        pool = self._facts.pool(operation.edit.pool[0])
        known = await edits.known_tasks(connection, tasks, operation.tenant)
        fitting: list[int] = []
        for task in tasks:
            if task not in known or pool is None:
                continue
            faults = FaultList()
            one = known[task]
            check_pool(judged_edits.Movable(one.shape, one.isolation, one.unplaceable_waits), pool, faults)
            if faults.faults:
                _refuse(batch, faults.faults[0].detail, [task])
            else:
                fitting.append(task)
        if pool is None:
            _refuse(batch, f"there is no pool {operation.edit.pool[1]} any more", tasks)
        else:
            _count(batch, [task for task in tasks if task not in known], 0)
        return fitting

    async def _retry(self, connection: AnyConnection, batch: Batch, tasks: Sequence[int]) -> None:
        operation = batch.operation
        made, batch.ready = await rerun.rerun_tasks(
            connection,
            tasks,
            operation.tenant,
            new_ids=await self._ids.take(len(tasks)),
            user=operation.user,
            server=self._server(),
        )
        _refuse(batch, "retried already", [task for task in tasks if task not in made])
        batch.changed = [task for task in tasks if task in made]
        batch.progress.changed += len(made)

    async def _discard(self, connection: AnyConnection, batch: Batch, tasks: Sequence[int]) -> None:
        gone = batch.changed = await dead_letters.discard_dead(connection, tasks, batch.operation.tenant)
        _count(batch, tasks, len(gone))


def _count(batch: Batch, tasks: Sequence[int], changed: int) -> None:
    """Of these tasks so many are changed; the others had ended before their turn."""
    batch.progress.changed += changed
    batch.progress.ended += len(tasks) - changed


def _refuse(batch: Batch, reason: str, tasks: Sequence[int]) -> None:
    if tasks:
        batch.progress.refused.setdefault(reason, []).extend(tasks)
