"""Lists of dead letters, and what became of those that were requeued or discarded."""

from __future__ import annotations

from datetime import UTC, datetime

from rota.cli.tables.render import NOTHING, ago, table
from rota.model.answers.dead_letters import DeadLetterPage, DiscardAnswer, RequeueAnswer


def page(found: DeadLetterPage) -> str:
    now = datetime.now(UTC)
    columns = ("ID>", "NAME~", "DIED>", "ATTEMPTS>", "REASON~")
    rows = [
        (
            str(task.id),
            task.name or task.kind or NOTHING,
            ago(task.died_at, now),
            str(task.attempt or task.attempts),
            task.reason or NOTHING,
        )
        for task in found.tasks
    ]
    drawn = table(columns, rows, empty="no dead letters")
    return f"{drawn}\nmore: the same with --cursor {found.next}" if found.next else drawn


def requeued(answer: RequeueAnswer) -> str:
    columns = ("ID>", "NEW ID>", "WHY NOT~")
    rows = [(str(one.id), str(one.new_id), NOTHING) for one in answer.requeued]
    rows += [(str(one.id), NOTHING, one.reason) for one in answer.refused]
    return table(columns, rows, empty="no dead letters")


def discarded(answer: DiscardAnswer) -> str:
    return "\n".join([f"discarded {len(answer.discarded):,}", *(one.reason for one in answer.refused)])
