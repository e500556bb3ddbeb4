"""The rows and edges of one submission, given the idempotency keys used before and its parent tasks. Pure.

A submission is admitted whole or refused whole. Most tasks have neither key nor parents and take the short way.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from rota.admit.drafts import hash_of
from rota.model.errors import Fault, Problem, invalid
from rota.model.task import State, Upstream
from rota.model.tenant import Caller
from rota.store.admission import KeyClaim, Parent
from rota.store.graphs import GraphRow
from rota.store.task_rows import Draft, RowMaker, Rows

Claims = dict[tuple[int, bytes], KeyClaim]  # (tenant, hash of the key) → the first claim
Edge = tuple[int, int, int, int]  # parent, dependent, the dependent's pool, its rule for the parent


@dataclass(slots=True)
class Submission:
    """The tasks of one request, until they are committed."""

    caller: Caller
    drafts: list[Draft]
    shapes: list[int]
    maker: RowMaker
    deadline: float
    done: asyncio.Future[Admitted]
    batch_key: str | None = None  # one key for the whole batch
    batch_claim: KeyClaim | None = None
    artifacts: frozenset[bytes] = frozenset()  # digests that its tasks name; locked by the commit
    graph: GraphRow | None = None  # the new graph that the tasks form
    parent: int | None = None  # the running task that submits them with a token; they join its graph, if it has one
    # Of its tasks that may submit others: the graphs that they begin, unless they join one.
    beginnings: tuple[GraphRow, ...] = ()
    growth_limit: int = 0  # how many tasks may join the graph of the running task whose key it is

    def claim_batch(self, key: str, body: bytes, ids: list[int]) -> None:
        """One idempotency key for the whole batch. `ids`: of its graph, if it is one, and of its tasks."""
        self.batch_key = key
        task = self.drafts[0].id
        self.batch_claim = KeyClaim(self.caller.tenant_id, hash_of(key.encode()), hash_of(body), task, ids)

    def claims(self) -> list[KeyClaim]:
        """The idempotency keys to claim: one a task, or one for the whole batch."""
        tenant = self.caller.tenant_id
        own = [
            KeyClaim(tenant, draft.key_hash, draft.body_hash, draft.id)
            for draft in self.drafts
            if draft.key_hash is not None
        ]
        return own if self.batch_claim is None else [*own, self.batch_claim]

    def is_one_plain_task(self) -> bool:
        """Whether storing it needs nothing but its own row and perhaps a key."""
        if len(self.drafts) != 1 or self.batch_claim or self.artifacts or self.graph or self.beginnings:
            return False
        if self.parent is not None or self.caller.task is not None:
            return False
        return not self.drafts[0].parents and not self.drafts[0].siblings

    def key_texts(self) -> list[str]:
        texts = (self.batch_key, *(draft.idempotency_key for draft in self.drafts))
        return [text for text in texts if text]

    def keys(self) -> set[tuple[int, bytes]]:
        return {(claim.tenant, claim.key_hash) for claim in self.claims()}


@dataclass(slots=True)
class Admitted:
    """What became of a submission. `replayed`: indexes whose key had been used before; their ids are older tasks."""

    ids: list[int]
    replayed: list[int]
    rows: list[Rows] = field(default_factory=list)
    graph: int | None = None


def make_rows(submission: Submission, earlier: Claims, parents: dict[int, Parent]) -> tuple[Admitted, list[Edge]]:
    """The rows and edges to write; or raises a Problem that refuses the whole submission."""
    if submission.batch_claim is not None:
        replayed = _replayed_batch(submission, submission.batch_claim, earlier)
        if replayed is not None:
            return replayed, []
    drafts, shapes, rows = submission.drafts, submission.shapes, submission.maker.rows
    if not any(draft.key_hash or draft.parents or draft.siblings for draft in drafts):
        ready = [rows(draft, shape) for draft, shape in zip(drafts, shapes, strict=True)]
        return Admitted([draft.id for draft in drafts], [], ready), []
    admitted = _identify(submission, earlier)
    _check_parents(submission, parents)
    replayed_tasks = frozenset(admitted.replayed)
    edges: list[Edge] = []
    for index, draft in enumerate(drafts):
        if index in replayed_tasks:
            continue
        after = _after(draft, admitted.ids, replayed_tasks)
        rules = dict(zip(after, draft.rules or [draft.template.upstream] * len(after), strict=True))
        waits_for = _unfinished(draft, rules, parents)
        edges += [(parent, draft.id, draft.template.pool, rules[parent]) for parent in waits_for]
        admitted.rows.append(rows(draft, shapes[index], blocked=bool(waits_for), after=after or None))
    return admitted, edges


def _replayed_batch(submission: Submission, claim: KeyClaim, earlier: Claims) -> Admitted | None:
    before = earlier.get((submission.caller.tenant_id, claim.key_hash))
    if before is None or before.task == claim.task:
        return None
    if before.body_hash != claim.body_hash:
        raise _key_reused("Idempotency-Key", before.task)
    ids = before.batch or [before.task]
    graph = None
    if submission.graph is not None:
        graph, *ids = ids
    return Admitted(list(ids), list(range(len(ids))), graph=graph)


def _identify(submission: Submission, earlier: Claims) -> Admitted:
    """Gives each task its own id, or the id of the task that its key was used for."""
    admitted = Admitted([], [])
    for index, draft in enumerate(submission.drafts):
        claim = earlier.get((submission.caller.tenant_id, draft.key_hash)) if draft.key_hash is not None else None
        if claim is None or claim.task == draft.id:
            admitted.ids.append(draft.id)
            continue
        if claim.body_hash != draft.body_hash:
            raise _key_reused(f"{draft.pointer}/idempotency_key", claim.task)
        admitted.replayed.append(index)
        admitted.ids.append(claim.task)
    return admitted


def _check_parents(submission: Submission, parents: dict[int, Parent]) -> None:
    tenant = submission.caller.tenant_id
    faults = [
        Fault(f"{draft.pointer}/after", "unknown-dependency", f"there is no task {parent}")
        for draft in submission.drafts
        for parent in draft.parents
        if parent not in parents or parents[parent].tenant != tenant
    ]
    if faults:
        raise invalid(faults)


def _after(draft: Draft, ids: list[int], replayed: frozenset[int]) -> list[int]:
    if any(sibling in replayed for sibling in draft.siblings):
        detail = f"{draft.pointer}: it comes after a task whose key was used before; name that task's id"
        title = "Part of the batch was submitted before"
        raise Problem("idempotency-key-reused", status=422, title=title, detail=detail)
    return [*draft.parents, *(ids[sibling] for sibling in draft.siblings)]


def _unfinished(draft: Draft, rules: dict[int, Upstream], parents: dict[int, Parent]) -> list[int]:
    """The parents that have not ended. Refuses a task that would only be skipped because of a parent's end."""
    waits_for = []
    for parent, rule in sorted(rules.items()):
        locked = parents.get(parent)
        if locked is None or locked.state is None:
            waits_for.append(parent)
        elif not rule.met_by(State(locked.state)):
            failed = rule is Upstream.FAILED
            field = "after_failed" if failed else "after"
            hint = "it did not fail" if failed else "upstream=run runs the task anyway"
            detail = f"task {parent} has ended {State(locked.state).label}; {hint}"
            raise invalid([Fault(f"{draft.pointer}/{field}", "upstream-ended", detail)])
    return waits_for


def _key_reused(pointer: str, task: int) -> Problem:
    detail = f"the idempotency key was used for task {task}, which has another body; use a new key"
    return Problem(
        "idempotency-key-reused",
        status=422,
        title="The idempotency key was used for another request",
        detail=detail,
        faults=(Fault(pointer, "idempotency-key-reused", detail),),
    )
