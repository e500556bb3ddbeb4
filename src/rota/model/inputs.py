"""The result of one task, handed to a task that depends on it. Cheap to import: warm children do."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

MOST_BYTES = 32 * 1024  # of one result; a larger one is fetched by who needs it
MOST_BYTES_A_TASK = 512 * 1024  # of all a task is handed: they travel in its start frame and its environment

_NOT_A_NAME = re.compile("[^A-Z0-9]")


class Input(msgspec.Struct, frozen=True, array_like=True):
    task: int
    name: str
    result: bytes | None  # JSON; None when it is too large to travel along


def environment(inputs: Iterable[Input]) -> dict[str, str]:
    """`ROTA_RESULT_<NAME>` and `ROTA_RESULT_<ID>`. Ids come last: a task named "7" can't stand in for task 7."""
    there = [one for one in inputs if one.result is not None]
    by_name = {f"ROTA_RESULT_{_NOT_A_NAME.sub('_', one.name.upper())}": one for one in there}
    by_id = {f"ROTA_RESULT_{one.task}": one for one in there}
    return {name: (one.result or b"").decode() for name, one in (by_name | by_id).items()}
