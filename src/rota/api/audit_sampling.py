"""Notes refusals, and reads of another tenant's affairs, for the audit log. No request waits for it, or fails of it.

What a request is about is told from its route: `POST /v1/tasks/12/cancel` by the function `cancel_task` is the action
task.cancel on task 12.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from fastapi import Request

from rota.api.audited import entry_of, named_entry
from rota.api.origin import origin
from rota.model.accounts.permissions import Scope
from rota.model.audit import Entry
from rota.model.errors import Presented, Problem, Stranger
from rota.model.sign_in.attempts import address_key
from rota.model.tenant import Caller
from rota.store.audit_notes import AuditNotes

CALLER = "rota.caller"  # in the scope of a request: who sent it, once that is known
LONGEST_NAME = 200
ROWS_OF_A_NETWORK = 60  # a minute, from senders without a credential

# The first part of an address, if the object's kind is not that without its s.
_KINDS = {"categories": "category", "dead": "task", "once": "task", "me": "tenant", "master-keys": "secret"}
# What belongs to a tenant, so that its administrators see who else looked at it.
_OF_TENANTS = frozenset(
    {"task", "graph", "artifact", "schedule", "secret", "webhook", "operation", "event", "concurrency-key"}
)
_READS = frozenset(
    {
        Scope.TASKS_READ,
        Scope.LOGS_READ,
        Scope.RESULTS_READ,
        Scope.ARTIFACTS_READ,
        Scope.SCHEDULES_READ,
        Scope.SECRETS_READ,
        Scope.EVENTS_READ,
        Scope.WEBHOOKS_READ,
    }
)


def note_denial(notes: AuditNotes, request: Request, problem: Problem) -> None:
    """A refusal because of who asks: 401 with a credential that has ended, 403, or a tenant that they may not see."""
    denied = problem.denied
    action, target = _asked(request)
    if isinstance(denied, Presented):
        notes.presented(denied, _denied(named_entry("anonymous", "", action, target), "unauthorized: it has ended"))
    elif isinstance(denied, Stranger):
        entry = named_entry(
            denied.kind, denied.name, action, target, credential=denied.credential, tenant_id=denied.tenant_id
        )
        entry = _denied(entry, f"not-found: tenant {_plain(denied.asked)}")
        notes.sampled(entry, f"denied {denied.tenant_id} {denied.name} {denied.credential}")
    elif problem.status == 403:
        caller: Caller | None = request.scope.get(CALLER)
        if caller is not None:
            needed = problem.extra.get("needed")
            entry = _denied(entry_of(caller, action, target), problem.slug + (f": {needed}" if needed else ""))
            notes.sampled(entry, f"denied {caller.tenant_id} {caller.user} {caller.credential}")


def note_refused(notes: AuditNotes, action: str, target: str, reason: str, caller: Caller | None = None) -> None:
    """A refusal of an agent, or of somebody who is no caller yet: then the rows of their network are counted."""
    target = _plain(target)
    if caller is not None:
        notes.sampled(_denied(entry_of(caller, action, target), reason), f"denied {caller.credential} {action}")
    else:
        sender = address_key(origin().address)
        notes.sampled(
            _denied(named_entry("anonymous", target, action, target), reason),
            f"denied {sender}",
            rows=ROWS_OF_A_NETWORK,
        )


def _denied(entry: Entry, reason: str) -> Entry:
    return msgspec.structs.replace(entry, outcome="denied", reason=reason[:LONGEST_NAME])


def note_read(notes: AuditNotes, request: Request, caller: Caller, scope: Scope | None) -> None:
    """After `authorise`: a caller without a role of their own at the tenant looks into it."""
    if not caller.foreign or scope not in _READS:
        return
    if caller.principal_id is None and "rota-tenant" not in request.headers:
        return  # a token without an owner belongs to its tenant, though its role holds everywhere
    action, target = _asked(request)
    kind = action.partition(".")[0]
    if kind in _OF_TENANTS:
        route = request.scope.get("route")
        entry = entry_of(caller, f"{kind}.read", target, reason=getattr(route, "path", ""), tenant_id=caller.tenant_id)
        notes.sampled(entry, f"read {caller.user} {caller.tenant_id} {kind}")


def _asked(request: Request) -> tuple[str, str]:
    """The action and the object's name."""
    parts = request.url.path.strip("/").split("/")
    first = parts[1] if len(parts) > 1 else parts[0]
    kind = _plain(_KINDS.get(first, first.removesuffix("s")))
    endpoint = request.scope.get("endpoint")
    verb = getattr(endpoint, "__name__", "use").partition("_")[0]
    names: Mapping[str, object] = request.path_params
    return f"{kind}.{verb}", _plain("/".join(map(str, names.values())))


def _plain(text: str) -> str:
    return text[:LONGEST_NAME].encode(errors="replace").decode()
