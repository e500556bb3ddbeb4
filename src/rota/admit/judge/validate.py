"""Validates requests: each becomes a `Template`, or a list of all its faults. Pure.

A batch of a million calls of one function differs only in arguments, so one template is made for each run of requests
that are equal otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from rota.admit.judge import attachments, fields
from rota.admit.judge import isolation as isolation_rules
from rota.admit.judge import resources as resource_rules
from rota.admit.judge.facts import Facts
from rota.model.errors import Fault, FaultList
from rota.model.request import needs, rules
from rota.model.request.rules import MOST_SCRIPT_BYTES
from rota.model.request.task_request import ABSENT, TaskRequest
from rota.model.resources import Shape, unsaid_cpu_limit
from rota.store.task_rows import Template

# Two requests that are equal in all other fields share one Template.
_VARYING = {"args", "kwargs", "idempotency_key", "after", "after_end", "after_failed", "ref", "array", "items"}
_shared: Callable[[TaskRequest], tuple[Any, ...]] = attrgetter(
    *(name for name in TaskRequest.__struct_fields__ if name not in _VARYING)
)


class Validator:
    """Validates one batch. `faults` grows; a template is None when its request has any."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._last: tuple[tuple[Any, ...], Template] | None = None
        self.faults: list[Fault] = []

    def template(self, request: TaskRequest, pointer: str) -> Template | None:
        shared = _shared(request)
        if self._last is not None and self._last[0] == shared:
            return self._last[1]
        found = FaultList(pointer)
        template = _template(request, self._facts, found)
        if found.faults:
            self.faults += found.faults
            return None
        assert template is not None
        self._last = (shared, template)
        return template

    def arguments(self, request: TaskRequest, pointer: str) -> None:
        """Checks the arguments, which are not part of the template."""
        found: list[tuple[str, str, str]] = []
        args, kwargs = bytes(request.args), bytes(request.kwargs)
        if args not in ABSENT:
            if args[:1] != b"[":
                found.append(("args", "invalid-type", "args must be a JSON array"))
            if request.command is not None:
                found.append(("args", "invalid-command", "a command's arguments go into command, after its name"))
        if kwargs not in ABSENT:
            if kwargs[:1] != b"{":
                found.append(("kwargs", "invalid-type", "kwargs must be a JSON object"))
            if request.function is None:
                found.append(("kwargs", "invalid-command", "kwargs go with a function only"))
        size = len(args) + len(kwargs)
        if size > MOST_SCRIPT_BYTES:
            detail = f"the arguments may have {MOST_SCRIPT_BYTES:,} bytes, not {size:,}; upload large data as a file"
            found.append(("args", "invalid-command", detail))
        for field, code, fault in found:
            self.faults.append(Fault(f"{pointer}/{field}", code, fault))


def spec_of(template: Template, request: TaskRequest, item: int | None = None) -> str:
    """The JSON that only the agent reads; arguments are passed through as they came. `item`: the index in an array."""
    text = template.spec_head
    if len(request.args):
        text += f',"args":{bytes(request.args).decode()}'
    if len(request.kwargs):
        text += f',"kwargs":{bytes(request.kwargs).decode()}'
    if item is not None:
        text += f',"index":{item}'
    return text + "}"


def _template(request: TaskRequest, facts: Facts, faults: FaultList) -> Template | None:
    kind = rules.kind_of(request, faults)
    attached = attachments.attached_of(request, kind, facts, faults)
    name = fields.name_of(request, attached.program, faults)
    rules.check_environment(request, faults)
    secrets = rules.secrets_of(request, faults)
    rules.check_may_submit(request, faults)
    tier, resources = resource_rules.resources_of(request, facts, faults)
    pool = resource_rules.pool_named(request.pool or "default", facts, faults)
    waits = needs.unplaceable_waits(request, faults)
    category = fields.category_of(request, facts, faults)
    isolation = isolation_rules.isolation_of(request, category, pool, facts, faults)
    cpu_limit = resource_rules.cpu_limit_of(request, facts, faults)
    isolation_rules.check_network(request, facts, faults)
    needs.check_processes(request, faults)
    log_limit = fields.log_limit_of(request, facts, faults)
    isolation_rules.check_mounts(request, pool, facts, faults)
    needs.check_image(request, faults)
    required = request.require | isolation_rules.labels_of(request, isolation, facts.tenant)
    shape = Shape(resources, dict(sorted(required.items())))
    needs.check_labels(request, faults)
    if pool is not None and not waits and not faults.faults:
        resource_rules.check_plan(request, resources, facts.plan, faults)
        resource_rules.check_satisfiable(shape, pool, faults)
    cap = fields.cap_of(request, category, facts.plan, faults)
    work = 0 if kind is None else fields.work_of(request, kind, name)
    typical_us = facts.typical_us.get(work)
    tolerance = fields.tolerance_of(request, category, cap, facts.plan.tolerance_ms, typical_us, faults)
    expires = fields.expires_of(request, tolerance, faults)
    attempts, backoff_ms, backoff_limit_ms = rules.retries_of(request, faults)
    retry_rules = rules.retry_rules_of(request, faults)
    not_before = fields.not_before_of(request, facts.now, faults)
    lane = fields.lane_of(request, category, facts, faults)
    upstream = rules.upstream_of(request, faults)
    rules.check_order(request, faults)
    tags = fields.tags_of(request, faults)
    if faults.faults or kind is None or pool is None:
        return None
    return Template(
        kind=kind,
        name=name,
        work=work,
        pool=pool.id,
        lane=lane.number,
        category=request.category,
        preemptible=request.preemptible,
        unplaceable_waits=waits,
        priority=request.priority,
        tolerance_ms=tolerance.order_ms,
        tolerance_given=tolerance.is_own and lane.promotes,
        tolerance_source=tolerance.source,
        leeway_ms=tolerance.leeway_ms,
        expires=expires,
        not_before=not_before,
        tier=tier,
        shape=shape,
        cap_ms=cap[0],
        attempts=attempts,
        backoff_ms=backoff_ms,
        backoff_limit_ms=backoff_limit_ms,
        retry_rules=retry_rules,
        concurrency_key=request.concurrency_key,
        concurrency_limit=(request.concurrency_limit or 1) if request.concurrency_key else None,
        concurrency_global=request.concurrency_key is not None and request.concurrency_scope == "global",
        upstream=upstream,
        tags=tags,
        secrets=secrets,
        may_submit=request.may_submit,
        artifacts=attached.digests,
        spec_head=fields.spec_head_of(
            request,
            isolation,
            secrets,
            attached.spec,
            owner=facts.tenant,
            log_limit=log_limit,
            cpu_limit=None if cpu_limit is unsaid_cpu_limit(isolation) else cpu_limit,
        ),
    )
