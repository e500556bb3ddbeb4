"""Boarding: what one request's tasks become in a flight, given the keys used before and the parents found. Pure.

A request is taken whole or refused whole. Most tasks have neither key nor parents, and pass straight through.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from rota.admit.drafts import Draft, RowMaker, Rows
from rota.model.errors import Fault, Problem, invalid
from rota.model.task import State, Upstream
from rota.model.tenant import Caller
from rota.store.admission import KeyClaim, Parent
from rota.store.graphs import GraphRow

Claims = dict[tuple[int, bytes], KeyClaim]  # (tenant, hash of the key) → who had it first
Edge = tuple[int, int, int, int]  # parent, child, the child's pool, what the child wants of the parent


@dataclass(slots=True)
class Load:
    """One request's tasks on their way."""

    caller: Caller
    drafts: list[Draft]
    shapes: list[int]
    maker: RowMaker
    deadline: float
    done: asyncio.Future[Landed]
    batch_key: str | None = None  # one key for the whole batch
    batch_claim: KeyClaim | None = None
    artifacts: frozenset[bytes] = frozenset()  # digests its tasks name, which must still be there when it lands
    graph: GraphRow | None = None  # they are a new graph's
    parent: int | None = None  # the running task that submits them, whose graph they join

    def claims(self) -> list[KeyClaim]:
        """The keys this load wants: its tasks' own, or one for all of them."""
        tenant = self.caller.tenant_id
        own = [
            KeyClaim(tenant, draft.key_hash, draft.body_hash, draft.id)
            for draft in self.drafts
            if draft.key_hash is not None
        ]
        return own if self.batch_claim is None else [*own, self.batch_claim]

    def is_one_plain_task(self) -> bool:
        """Nothing but its own row, and perhaps a key, has to be looked at to store it."""
        if len(self.drafts) != 1 or self.batch_claim or self.artifacts or self.graph or self.parent is not None:
            return False
        return not self.drafts[0].parents and not self.drafts[0].siblings

    def keys(self) -> set[tuple[int, bytes]]:
        return {(claim.tenant, claim.key_hash) for claim in self.claims()}


@dataclass(slots=True)
class Landed:
    """A load that is durable. `replayed` are indexes whose key had been used before: those ids are older tasks."""

    ids: list[int]
    replayed: list[int]
    rows: list[Rows] = field(default_factory=list)
    children: bool = False  # some child's parents had ended already
    graph: int | None = None


def place(load: Load, earlier: Claims, parents: dict[int, Parent]) -> tuple[Landed, list[Edge]]:
    """The load's rows and edges, or a Problem that refuses it whole."""
    if load.batch_claim is not None:
        replayed = _replayed_batch(load, load.batch_claim, earlier)
        if replayed is not None:
            return replayed, []
    drafts, shapes, rows = load.drafts, load.shapes, load.maker.rows
    if not any(draft.key_hash or draft.parents or draft.siblings for draft in drafts):
        ready = [rows(draft, shape) for draft, shape in zip(drafts, shapes, strict=True)]
        return Landed([draft.id for draft in drafts], [], ready), []
    landed = _identify(load, earlier)
    _check_parents(load, parents)
    replayed_tasks = frozenset(landed.replayed)
    edges: list[Edge] = []
    for index, draft in enumerate(drafts):
        if index in replayed_tasks:
            continue
        after = _after(draft, landed.ids, replayed_tasks)
        wanted = dict(zip(after, draft.rules or [draft.template.upstream] * len(after), strict=True))
        waits_for = _unfinished(draft, wanted, parents)
        edges += [(parent, draft.id, draft.template.pool, wanted[parent]) for parent in waits_for]
        landed.rows.append(rows(draft, shapes[index], blocked=bool(waits_for), after=after or None))
    return landed, edges


def _replayed_batch(load: Load, claim: KeyClaim, earlier: Claims) -> Landed | None:
    before = earlier.get((load.caller.tenant_id, claim.key_hash))
    if before is None or before.task == claim.task:
        return None
    if before.body_hash != claim.body_hash:
        raise _key_reused("Idempotency-Key", before.task)
    ids = before.batch or [before.task]
    graph = None
    if load.graph is not None:
        graph, *ids = ids
    return Landed(list(ids), list(range(len(ids))), graph=graph)


def _identify(load: Load, earlier: Claims) -> Landed:
    """Each task's id: its own, or the one its key was used for."""
    landed = Landed([], [])
    for index, draft in enumerate(load.drafts):
        claim = earlier.get((load.caller.tenant_id, draft.key_hash)) if draft.key_hash is not None else None
        if claim is None or claim.task == draft.id:
            landed.ids.append(draft.id)
            continue
        if claim.body_hash != draft.body_hash:
            raise _key_reused(f"{draft.pointer}/idempotency_key", claim.task)
        landed.replayed.append(index)
        landed.ids.append(claim.task)
    return landed


def _check_parents(load: Load, parents: dict[int, Parent]) -> None:
    tenant = load.caller.tenant_id
    faults = [
        Fault(f"{draft.pointer}/after", "unknown-dependency", f"there is no task {parent}")
        for draft in load.drafts
        for parent in draft.parents
        if parent not in parents or parents[parent].tenant != tenant
    ]
    if faults:
        raise invalid(faults)


def _after(draft: Draft, ids: list[int], replayed: frozenset[int]) -> list[int]:
    if any(sibling in replayed for sibling in draft.siblings):
        raise Problem(
            "idempotency-key-reused",
            status=422,
            title="Part of the batch was submitted before",
            detail=f"{draft.pointer}: it comes after a task whose key was used before; name that task's id",
        )
    return [*draft.parents, *(ids[sibling] for sibling in draft.siblings)]


def _unfinished(draft: Draft, wanted: dict[int, Upstream], parents: dict[int, Parent]) -> list[int]:
    """The parents still to come. One that has ended badly refuses a child that would only be skipped."""
    waits_for = []
    for parent, rule in sorted(wanted.items()):
        known = parents.get(parent)
        if known is None or known.state is None:
            waits_for.append(parent)
        elif not rule.met_by(State(known.state)):
            failed = rule is Upstream.FAILED
            field = "after_failed" if failed else "after"
            hint = "it did not fail" if failed else "upstream=run runs anyway"
            detail = f"task {parent} has ended {State(known.state).label}; {hint}"
            raise invalid([Fault(f"{draft.pointer}/{field}", "upstream-ended", detail)])
    return waits_for


def _key_reused(pointer: str, task: int) -> Problem:
    detail = f"the key belongs to task {task}, which has another body; use a new key"
    return Problem(
        "idempotency-key-reused",
        status=422,
        title="The idempotency key was used for another request",
        detail=detail,
        faults=(Fault(pointer, "idempotency-key-reused", detail),),
    )
