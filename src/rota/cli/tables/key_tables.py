"""Tables of concurrency keys."""

from __future__ import annotations

from rota.cli.tables.render import NOTHING, exact, facts, table
from rota.model.answers.waiting import ConcurrencyKeyDocument, ConcurrencyKeyList, CooledKey


def keys(answer: ConcurrencyKeyList) -> str:
    columns = ("KEY", "COUNTED", "RUNNING>", "LIMIT>", "WAITING>", "COOLED UNTIL")
    rows = [
        (
            one.key,
            _counted(one),
            str(one.running),
            NOTHING if one.limit is None else str(one.limit),
            str(one.waiting),
            NOTHING if one.cooled_until is None else exact(one.cooled_until),
        )
        for one in answer.keys
    ]
    return table(columns, rows, empty="no task names a concurrency key, and none is cooled down")


def cooled(answer: CooledKey) -> str:
    until = "not cooled down" if answer.cooled_until is None else exact(answer.cooled_until)
    return facts((("key", answer.key), ("cooled until", until)))


def _counted(one: ConcurrencyKeyDocument) -> str:
    if one.scope is None:
        return NOTHING
    return "in all pools" if one.scope == "global" else f"in {one.pool}"
