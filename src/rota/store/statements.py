"""Reads the SQL files: one statement a file, in a folder named as the module that runs it.

In a file `{READY}` stands for the number of a task's state, `{Outcome.LOST}` for that of another enum's member, and
`{columns}` or `{queue/ready_columns}` for the text of another file: of the same folder, unless a folder is named. A
part that varies is chosen by its file: `sql("listing/list_chosen", chosen="by_name")`. No other text gets in.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection
from functools import cache
from importlib import resources
from operator import attrgetter, itemgetter
from typing import Any

from rota.model import event
from rota.model.attempt import Outcome
from rota.model.request.operation import OperationState
from rota.model.schedule.schedule import Trigger
from rota.model.task import Lane, Scheduling, State, Upstream
from rota.model.tolerance import ToleranceSource
from rota.model.webhook import DeliveryState

_PART = re.compile(r"\{(?:([A-Z]\w*)\.)?([A-Za-z_][\w/]*)\}")
_ENUMS: dict[str, type[enum.IntEnum]] = {
    "DeliveryState": DeliveryState,
    "Event": event.Kind,
    "Lane": Lane,
    "OperationState": OperationState,
    "Outcome": Outcome,
    "Scheduling": Scheduling,
    "ToleranceSource": ToleranceSource,
    "Trigger": Trigger,
    "Upstream": Upstream,
}


@cache
def sql(name: str, **parts: str) -> str:
    folder = name.rpartition("/")[0]

    def fill(match: re.Match[str]) -> str:
        kind, word = match.groups()
        if kind is not None:
            return str(_ENUMS[kind][word].value)
        if word.isupper():
            return str(State[word].value)
        file = parts.get(word, word)
        return sql(file if "/" in file else f"{folder}/{file}")

    text = resources.files("rota.store").joinpath("sql", f"{name}.sql").read_text()
    return _PART.sub(fill, text).rstrip()


def columns(rows: Collection[Any], *names: str | int) -> list[list[Any]]:
    """One array for each attribute (or index) of the rows, as a statement with `unnest` takes them.

    A dotted name goes deeper: `columns(reports, "boot", "result.task")`.
    """
    return [list(map(attrgetter(name) if isinstance(name, str) else itemgetter(name), rows)) for name in names]
