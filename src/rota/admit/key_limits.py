"""What tasks that a running task submits with its key may name: no more than the running task itself.

They read the results of no tasks but those of its graph, get no secrets but its own, and no artifacts whose digest it
does not know. That they are isolated if it is, is the caller's trust (`authenticate.py`). A token for some tasks only
is bound here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rota.admit.judge.attachments import references_in
from rota.model.errors import Fault, Problem, invalid
from rota.model.request.task_request import TaskRequest
from rota.model.tenant import Caller, SubmittingTask
from rota.store.database import Database
from rota.store.graphs import members_among
from rota.store.reading import read_restricted
from rota.store.task_rows import Draft

_WHOLE_DIGEST = 64  # hexadecimal digits


async def check_bounds(database: Database, caller: Caller, task: SubmittingTask, drafts: Sequence[Draft]) -> None:
    """Raises a Problem with every fault. One query at most, and none without dependencies outside the request."""
    parents = {parent for draft in drafts for parent in draft.parents}
    known: set[int] = set()
    if parents:
        async with database.engine() as connection:
            known = await members_among(connection, task.graph, caller.tenant_id, sorted(parents))
    faults = [
        Fault(f"{draft.pointer}/after", "unknown-dependency", f"task {parent} is not in graph {task.graph}, your own")
        for draft in drafts
        for parent in draft.parents
        if parent not in known
    ]
    for draft in drafts:
        others = [name for name in draft.template.secrets if name not in task.secrets]
        if others:
            detail = f"the secret {others[0]} is not one of task {task.id}, which submits; submit that with it too"
            faults.append(Fault(f"{draft.pointer}/secrets", "unknown-secret", detail))
    if faults:
        raise invalid(faults[:100])


def check_digests(requests: Sequence[TaskRequest]) -> None:
    """Before artifacts are looked up: answers about parts of digests would tell them digit by digit."""
    short = [digits for digits in references_in(requests) if len(digits) < _WHOLE_DIGEST]
    if short:
        detail = f"{short[0][:80]} is a part of an artifact's digest; a running task names the whole digest"
        raise invalid([Fault("", "unknown-artifact", detail)])


async def check_restricted_parents(database: Database, caller: Caller, drafts: Sequence[Draft]) -> None:
    """A token that is for some tasks only depends on no others: a task reads the results of those that it depends on.

    What does not exist is refused in the same way.
    """
    parents = sorted({parent for draft in drafts for parent in draft.parents})
    if not parents:
        return
    async with database.engine() as connection:
        found = await read_restricted(connection, parents, caller.tenant_id)
    limits = caller.restrictions
    allowed = {
        task
        for task, (name, pool, user) in found.items()
        if limits.allows_name(name) and limits.allows_pool(pool) and (user == caller.user or not limits.own)
    }
    faults = [
        Fault(f"{draft.pointer}/after", "restricted-token", f"this token is for {limits.text()} only, not for {parent}")
        for draft in drafts
        for parent in draft.parents
        if parent not in allowed
    ]
    if faults:
        raise _beyond(faults)


def check_restricted(caller: Caller, drafts: Sequence[Draft], pools: Mapping[int, str]) -> None:
    """A token that is for some names or pools only submits no other tasks."""
    limits = caller.restrictions
    faults = []
    for draft in drafts:
        name, pool = draft.template.name, pools.get(draft.template.pool, "")
        if not limits.allows_name(name):
            detail = f"this token is for names like {', '.join(limits.names)}, not {name!r:.60}"
            faults.append(Fault(f"{draft.pointer}/name", "restricted-token", detail))
        if not limits.allows_pool(pool):
            detail = f"this token is for the pools {', '.join(limits.pools)}, not {pool!r:.60}"
            faults.append(Fault(f"{draft.pointer}/pool", "restricted-token", detail))
    if faults:
        raise _beyond(faults)


def _beyond(faults: Sequence[Fault]) -> Problem:
    return Problem(
        "restricted-token", status=403, title="Forbidden", detail=faults[0].detail, faults=tuple(faults[:100])
    )
