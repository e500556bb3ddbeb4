"""Turns the requests of a batch into drafts, or reports every fault of the batch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from rota.admit.judge import fields
from rota.admit.judge.arrays import Expanded
from rota.admit.judge.dependency_graph import named_parents, resolve_references
from rota.admit.judge.facts import Facts
from rota.admit.judge.validate import Validator, spec_of
from rota.model.errors import Fault, Problem, invalid
from rota.model.request.rules import key_trouble
from rota.model.request.task_request import TaskRequest
from rota.model.task import Upstream
from rota.store.task_rows import Draft


def draft_batch(
    requests: Sequence[TaskRequest], facts: Facts, *, key: str | None, single: bool, arrays: Expanded | None = None
) -> list[Draft]:
    """The drafts of a batch. Raises a Problem with every fault. `key`: the Idempotency-Key header of a single task.

    `arrays`: set if the requests were expanded from arrays, with the faults found then.
    """
    validator = Validator(facts)
    pointers = [""] if single else [f"/tasks/{index}" for index in range(len(requests))]
    items: Sequence[int | None] = ()
    if arrays is not None:
        validator.faults += arrays.faults
        pointers, items = arrays.pointers, arrays.items
    siblings, sibling_rules = resolve_references(requests, pointers, validator.faults)
    drafts: list[Draft] = []
    late: list[Fault] = []
    for index, request in enumerate(requests):
        pointer = pointers[index]
        if validator.faults and index and pointers[index - 1] == pointer:
            continue  # the next task of an array has the same faults
        if request.array is not None or request.items:
            detail = "an array can't be part of a batch; submit it alone or as a task of a graph"
            validator.faults.append(Fault(f"{pointer}/array", "invalid-command", detail))
        template = validator.template(request, pointer)
        passed = fields.passed_fault(request, pointer, facts.now)
        if passed is not None:
            late.append(passed)
        if len(request.args) or len(request.kwargs):
            validator.arguments(request, pointer)
        if request.idempotency_key is not None:
            check_idempotency_key(request.idempotency_key, f"{pointer}/idempotency_key")
        own_key = request.idempotency_key or (key if single else None)
        parents, rules = _parents_of(request, pointer, validator.faults)
        if template is not None:
            drafts.append(
                Draft(
                    template,
                    spec_of(template, request, items[index] if items else None),
                    parents,
                    siblings[index],
                    own_key,
                    None if own_key is None else hash_of(own_key.encode()),
                    b"" if own_key is None else _body_hash(request),
                    pointer,
                )
            )
            drafts[-1].passed = passed
            if rules or sibling_rules[index]:
                drafts[-1].rules = [
                    *(rules.get(parent, template.upstream) for parent in parents),
                    *(sibling_rules[index].get(sibling, template.upstream) for sibling in siblings[index]),
                ]
    if validator.faults:
        raise invalid([*validator.faults, *late][:100])
    return drafts


def _parents_of(request: TaskRequest, pointer: str, faults: list[Fault]) -> tuple[list[int], dict[int, Upstream]]:
    """The ids of its parents, each once, and the rules for parents that are not in `after`."""
    if not (request.after or request.after_end or request.after_failed):
        return [], {}
    rules: dict[int, Upstream | None] = {}
    for field, rule, names in named_parents(request):
        own = [name for name in names if isinstance(name, int)]
        if any(not 0 < number < 2**63 for number in own):
            faults.append(Fault(f"{pointer}/{field}", "unknown-dependency", "a task's id is a positive 64-bit number"))
        rules |= dict.fromkeys(own, rule)
    return list(rules), {parent: rule for parent, rule in rules.items() if rule is not None}


def hash_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:16]


def check_idempotency_key(key: str, where: str) -> None:
    trouble = key_trouble(key)
    if trouble is not None:
        detail = f"{where}: {trouble}"
        raise Problem("idempotency-key-invalid", status=400, title="The idempotency key is not valid", detail=detail)


def _body_hash(request: TaskRequest) -> bytes:
    """The hash does not depend on whether the key came in the body or in the header."""
    return hash_of(msgspec.json.encode(msgspec.structs.replace(request, idempotency_key=None), order="deterministic"))
