"""The audit log: its rows, and what a comparison with its seals found."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.model.answers.fields import Time


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Who did what, by which credential, from where, and with what outcome. `before` and `after`: what changed."""

    id: int
    at: Time
    tenant: str | None = None  # null: of the cluster
    actor_kind: str = ""  # user, service, node, task, system or anonymous
    actor: str = ""
    credential: str = ""  # token ci-7, session 12, task 9
    on_behalf_of: str = ""
    via: str = ""  # ui, cli, api or sdk; empty: a server node by itself
    action: str = ""
    object_kind: str = ""
    object_id: str = ""
    outcome: str = ""  # done, denied or failed
    reason: str = ""
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    selection: dict[str, Any] | None = None  # of a change of many: the filter, or some of the ids
    count: int | None = None  # how many it is about; of sampled rows: how many more there were
    address: str | None = None
    agent: str = ""
    request_id: str = ""
    server: str = ""


class AuditEntryPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page, newest first; it may be short, or empty, and still have a `next`. `head` stands for all sealed rows."""

    entries: list[AuditEntry]
    next: str | None = None
    head: str | None = None  # number and hash of the last seal; null: nothing is sealed yet


class AuditFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that does not fit: `what` is changed, missing, inserted, seal-changed, seal-missing, chain-broken,

    no-beginning or head-unknown. `rows`: the ids of the rows, at most 1,000.
    """

    what: str
    detail: str
    seal: int | None = None
    rows: list[int] = []


class AuditVerification(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the chain of seals, compared with the rows. `next`: go on `after` this seal; null: that was the end."""

    seals: int
    rows: int
    findings: list[AuditFinding]
    next: int | None = None
    head: str | None = None  # of the last seal of this part: write it down elsewhere
    unsealed: int = 0  # rows after the last seal, which nothing protects yet
    unsealed_since: Time | None = None
