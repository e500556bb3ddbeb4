"""Concurrency keys: which tasks may start, which wait for a key, and when they queue again.

A key of this pool alone is counted here. The store counts a key across pools with every start: the core only knows when
a start would certainly be refused.
"""

from __future__ import annotations

from rota.decide.state import CoreState, Key, KeyName
from rota.model.queue import ReadyTask


def name_of(task: ReadyTask) -> KeyName:
    assert task.concurrency_key is not None
    return (task.tenant, task.concurrency_key, task.concurrency_global)


def is_open(state: CoreState, task: ReadyTask) -> bool:
    """Whether its key, if it has one, lets the task start: its own limit counts, whatever limits others gave."""
    if task.concurrency_key is None:
        return True
    if state.cooled and (task.tenant, task.concurrency_key) in state.cooled:
        return False
    key = state.keys.get(name_of(task))
    if key is None:
        return True
    if task.concurrency_global:
        return not key.barred and key.running + key.elsewhere < task.concurrency_limit
    return key.running < task.concurrency_limit


def park(state: CoreState, task: ReadyTask) -> None:
    """The task leaves its queue until its key is free."""
    key_of(state, name_of(task), task.concurrency_limit).waiting.append(task)


def key_of(state: CoreState, name: KeyName, limit: int) -> Key:
    key = state.keys.get(name)
    if key is None:
        key = state.keys[name] = Key(limit)
    return key


def hold(state: CoreState, name: KeyName, limit: int) -> None:
    key = key_of(state, name, limit)
    key.limit = limit
    key.running += 1
    if key.running > limit:  # adopted: an earlier leader allowed more, before the limit was lowered
        key.adopted = key.running


def release(state: CoreState, name: KeyName, *, settled: bool) -> list[ReadyTask]:
    """One of the key's tasks ended; returns the tasks that queue again.

    A place of a key counted across pools is free only after the settlement: a start before that would be refused.
    """
    key = state.keys[name]
    key.running -= 1
    if name[2] and not settled:
        key.barred = True
    return woken(state, name)


def learn(state: CoreState, name: KeyName, elsewhere: int | None) -> list[ReadyTask]:
    """News of a key that is counted across pools; returns the tasks that queue again."""
    key = state.keys.get(name)
    if key is None:
        return []
    was_barred, key.barred = key.barred, False
    if elsewhere is not None:
        key.elsewhere = elsewhere
    return woken(state, name, keep=was_barred)


def cool(state: CoreState, until_us: dict[tuple[int, str], int]) -> list[ReadyTask]:
    """Exactly these keys are cooled down now; returns the tasks of other keys that queue again.

    The caller has compared the times with the clock: a key is cooled down as long as it is among them.
    """
    over = [name for name in state.cooled if name not in until_us]
    state.cooled = until_us
    return [
        task
        for tenant, name in over
        for everywhere in (False, True)
        if (tenant, name, everywhere) in state.keys
        for task in woken(state, (tenant, name, everywhere))
    ]


def woken(state: CoreState, name: KeyName, *, keep: bool = False) -> list[ReadyTask]:
    """The tasks that wait for the key, if any of them may start. A key without holders and waiting tasks is forgotten,
    unless places of it are held in other pools and a task is about to ask.
    """
    key = state.keys[name]
    waiting = [task for task in key.waiting if state.ready.get(task.id) is task]
    if any(is_open(state, task) for task in waiting):
        key.waiting = []
    else:
        key.waiting, waiting = waiting, []
    if not key.running and not key.waiting and not key.barred and not (key.elsewhere and (waiting or keep)):
        del state.keys[name]
    return waiting


def watched(state: CoreState) -> list[tuple[int, str]]:
    """Keys counted across pools that the poll should read, sorted: most keep tasks waiting."""
    return sorted(
        (tenant, name)
        for (tenant, name, everywhere), key in state.keys.items()
        if everywhere and (key.waiting or key.barred or (key.elsewhere and not key.running))
    )
