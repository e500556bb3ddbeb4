"""Operations: previews, lists, one with its counts, and the sentence at its end."""

from __future__ import annotations

from datetime import UTC, datetime

from rota.cli.tables.render import NOTHING, ago, exact, facts, span, table
from rota.cli.tables.task_tables import some
from rota.model.answers.operations import OperationDocument, OperationPage, OperationPreview

_DONE = {
    "cancel": "cancelled",
    "hold": "held",
    "release": "released",
    "retry": "retried",
    "edit": "edited",
    "requeue": "requeued",
    "discard": "discarded",
}


def amount(verb: str, count: int, *, or_more: bool = False) -> str:
    """`1,234 tasks`, `1 dead letter`, `1,000,000 or more tasks`."""
    noun = "dead letter" if verb in ("requeue", "discard") else "task"
    return f"{count:,}{' or more' if or_more else ''} {noun}{'' if count == 1 else 's'}"


def preview(found: OperationPreview) -> str:
    said = f"would {found.verb} {amount(found.verb, found.count, or_more=found.or_more)}"
    if not found.count or found.verb in ("requeue", "discard"):
        return said
    states = ", ".join(f"{number:,} {state}" for state, number in found.states.items())
    return f"{said}: {states}\nthe newest: {some(found.ids)}"


def ended(found: OperationDocument) -> str:
    """What an operation did, in sentences."""
    lines = [f"{_DONE[found.verb]} {amount(found.verb, found.changed)} (operation {found.id})"]
    if found.state == "stopped":
        lines.append("it was stopped before its end")
    if found.trouble:
        lines.append(f"it failed: {found.trouble}")
    if found.ended:
        lines.append(f"{found.ended:,} had ended before their turn")
    lines += [f"{one.count:,} refused: {one.reason} ({some(one.ids)})" for one in found.refusals]
    return "\n".join(lines)


def page(found: OperationPage) -> str:
    now = datetime.now(UTC)
    rows = [
        (
            str(one.id),
            one.verb,
            one.state,
            f"{one.changed:,}",
            f"{one.refused:,}" if one.refused else NOTHING,
            one.user,
            ago(one.created_at, now),
            _filter(one),
        )
        for one in found
    ]
    columns = ("ID>", "VERB", "STATE", "CHANGED>", "REFUSED>?", "USER", "STARTED>", "FILTER~")
    drawn = table(columns, rows, empty="no operations")
    return f"{drawn}\nmore: the same with --cursor {found.next}" if found.next else drawn


def operation(one: OperationDocument) -> str:
    last = one.ended_at or datetime.now(UTC)
    return facts(
        [
            ("operation", str(one.id)),
            ("verb", one.verb),
            ("state", one.state),
            ("why", one.trouble or ""),
            ("filter", _filter(one)),
            ("changes", ", ".join(f"{name}={value}" for name, value in one.changes.items())),
            ("started by", one.user),
            ("started", exact(one.created_at)),
            ("ended", exact(one.ended_at)),
            ("took", span((last - one.created_at).total_seconds())),
            ("expected", amount(one.verb, one.expected, or_more=one.or_more)),
            ("changed", f"{one.changed:,}"),
            ("ended before", f"{one.ended:,}" if one.ended else ""),
            *(("refused", f"{refusal.count:,}: {refusal.reason} ({some(refusal.ids)})") for refusal in one.refusals),
        ]
    )


def _filter(one: OperationDocument) -> str:
    return ", ".join(f"{name}={value}" for name, value in one.where.items()) or "all"
