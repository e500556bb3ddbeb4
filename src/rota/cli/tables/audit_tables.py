"""How the audit log, its comparison with the seals and a task's history look to a person. All of it is foreign text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rota.cli.tables.render import NOTHING, exact, facts, table
from rota.model.answers.audit import AuditEntry, AuditEntryPage, AuditVerification
from rota.model.answers.tasks import TaskChange

_DONE = {
    "cancel": "cancelled",
    "hold": "held",
    "release": "released",
    "retry": "retried",
    "requeue": "requeued",
    "rerun": "run again",
    "discard": "discarded as a dead letter",
    "edit": "edited",
    "pause": "paused",
    "resume": "resumed",
    "extend": "given another cap",
}
_SHOWN = 20  # ids of rows in a line


def page(found: AuditEntryPage) -> str:
    columns = ("ID>", "TIME", "WHO", "BY~", "WHAT", "OBJECT~", "OUTCOME", "COUNT>?", "REASON~?")
    rows = [
        (
            str(one.id),
            exact(one.at),
            _who(one.actor, one.on_behalf_of),
            _by(one.credential, one.via),
            one.action,
            _object(one),
            one.outcome,
            NOTHING if one.count is None else str(one.count),
            one.reason or NOTHING,
        )
        for one in found.entries
    ]
    more = f"\nnext page: --cursor {found.next}" if found.next else ""
    empty = "nothing on this page" if found.next else "nothing was found"
    return table(columns, rows, empty=empty) + more


def entry(one: AuditEntry) -> str:
    """One row; of what changed, a line before and one after, as in a diff."""
    pairs = [
        ("id", str(one.id)),
        ("time", exact(one.at)),
        ("who", _who(one.actor, one.on_behalf_of)),
        ("kind", one.actor_kind),
        ("by", _by(one.credential, one.via)),
        ("what", one.action),
        ("object", _object(one)),
        ("outcome", one.outcome),
        ("reason", one.reason),
        ("tenant", one.tenant or ""),
        ("selected", "" if one.selection is None else _json(one.selection)),
        ("count", "" if one.count is None else str(one.count)),
        ("from", one.address or ""),
        ("program", one.agent),
        ("request", one.request_id),
        ("server", one.server),
    ]
    return "\n".join([facts(pairs), *_changes(one.before, one.after)])


def _changes(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[str]:
    """Plain ASCII: JSON writes out every other character, so nothing in it reaches the terminal."""
    lines = []
    for name in dict.fromkeys([*(before or {}), *(after or {})]):
        old, new = (before or {}).get(name, ...), (after or {}).get(name, ...)
        if old == new:
            continue
        if old is not ...:
            lines.append(f"- {_json(name)[1:-1]}: {_json(old)}")
        if new is not ...:
            lines.append(f"+ {_json(name)[1:-1]}: {_json(new)}")
    return lines


def together(parts: Sequence[AuditVerification]) -> AuditVerification:
    """The parts of a chain as one answer."""
    last = parts[-1]
    return AuditVerification(
        seals=sum(part.seals for part in parts),
        rows=sum(part.rows for part in parts),
        findings=[finding for part in parts for finding in part.findings],
        head=next((part.head for part in reversed(parts) if part.head is not None), None),
        unsealed=last.unsealed,
        unsealed_since=last.unsealed_since,
    )


def verified(whole: AuditVerification) -> str:
    """Each finding is a line; then what was compared."""
    lines = []
    for one in whole.findings:
        shown = ", ".join(map(str, one.rows[:_SHOWN])) + (", …" if len(one.rows) > _SHOWN else "")
        where = "" if one.seal is None else f"seal {one.seal}: "
        lines.append(f"{one.what}: {where}{one.detail}" + (f": rows {shown}" if shown else ""))
    number = len(whole.findings)
    said = "everything fits" if not number else "1 finding" if number == 1 else f"{number} findings"
    lines.append(f"{whole.rows:,} rows in {whole.seals:,} seals: {said}")
    if whole.unsealed:
        since = "" if whole.unsealed_since is None else f", since {exact(whole.unsealed_since)}"
        lines.append(f"{whole.unsealed:,} newer rows are not sealed yet{since}")
    if whole.head is not None:
        lines.append(f"head {whole.head}  (write it down elsewhere, and give it to --head)")
    return "\n".join(lines)


def change(one: TaskChange) -> str:
    """`cancelled by ann (token ci-7) at 2030-01-31 14:02:11: wrong input`."""
    kind, _, verb = one.action.partition(".")
    done = _DONE.get(verb, one.action)
    many = f" with {one.count - 1:,} others" if one.count is not None and one.count > 1 else ""
    by = _by(one.credential, one.via)
    who = f"{_who(one.by, one.on_behalf_of)}" + (f" ({by})" if by != NOTHING else "")
    how = f" as part of a {kind}" if kind == "graph" else ""
    return f"{done} by {who} at {exact(one.at)}{how}{many}" + (f": {one.reason}" if one.reason else "")


def _who(actor: str, on_behalf_of: str) -> str:
    return f"{actor} for {on_behalf_of}" if on_behalf_of else actor or NOTHING


def _by(credential: str, via: str) -> str:
    return ", ".join(part for part in (credential, via) if part) or NOTHING


def _object(one: AuditEntry) -> str:
    return f"{one.object_kind}:{one.object_id}" if one.object_id else one.object_kind


def _json(value: object) -> str:
    return json.dumps(value)
