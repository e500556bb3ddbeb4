"""The requests about the audit log: list, read one row, verify."""

from __future__ import annotations

from collections.abc import Mapping

from rota.client.calls.call import Call, get
from rota.model.answers.audit import AuditEntry, AuditEntryPage, AuditVerification

FILTERS = ("since", "until", "actor", "action", "object", "outcome", "credential", "address", "tenant")


def entries(
    filters: Mapping[str, str | None], *, limit: int | None = None, cursor: str | None = None
) -> Call[AuditEntryPage]:
    """`filters`: some of FILTERS; None selects all."""
    return get("/v1/audit", AuditEntryPage, {**filters, "limit": limit, "cursor": cursor})


def entry(number: int) -> Call[AuditEntry]:
    return get(f"/v1/audit/{number}", AuditEntry)


def verify(*, since: str | None = None, after: int | None = None, head: str | None = None) -> Call[AuditVerification]:
    """A part of the chain; the next one comes `after` the `next` of its answer."""
    return get("/v1/audit/verify", AuditVerification, {"since": since, "after": after, "head": head})
