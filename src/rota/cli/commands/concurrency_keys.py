"""`rota key`: shows concurrency keys, and cools one down."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables.render import NOTHING, add_command, add_group, exact, facts, table
from rota.client.calls import waiting_calls
from rota.model.answers.waiting import ConcurrencyKeyDocument, ConcurrencyKeyList, CooledKey


def add_to(app: typer.Typer) -> None:
    key = add_group(app, "key", "Show concurrency keys, and cool one down.")
    add_command(key, "list", list_keys, "rota key list")
    add_command(key, "cool", cool_key, "rota key cool api.example.com --for 60s", "rota key cool printer --for 0s")


def list_keys(output_format: Output = Format.TABLE) -> None:
    """List the concurrency keys with live tasks, and the keys that cool down."""
    show(waiting_calls.concurrency_keys(), output_format, _keys)


def cool_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the concurrency key.")],
    span: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long; 0s ends the cool-down.")],
    output_format: Output = Format.TABLE,
) -> None:
    """Start no task with this concurrency key for a while, in any pool. Running tasks continue."""
    given = checks.duration("--for", span)
    assert given is not None
    show(waiting_calls.cool_key(name, given), output_format, _cooled)


def _keys(answer: ConcurrencyKeyList) -> str:
    columns = ("KEY", "COUNTED", "RUNNING>", "LIMIT>", "WAITING>", "COOLED UNTIL")
    rows = [
        (
            one.key,
            _counted(one),
            str(one.running),
            _limit(one),
            str(one.waiting),
            NOTHING if one.cooled_until is None else exact(one.cooled_until),
        )
        for one in answer.keys
    ]
    return table(columns, rows, empty="no task names a concurrency key, and none is cooled down")


def _cooled(answer: CooledKey) -> str:
    until = "not cooled down" if answer.cooled_until is None else exact(answer.cooled_until)
    return facts((("key", answer.key), ("cooled until", until)))


def _limit(one: ConcurrencyKeyDocument) -> str:
    """Each task's own limit counts, so all that were given are shown."""
    if len(one.limits) > 1:
        return f"{', '.join(map(str, one.limits))} (by task)"
    return NOTHING if one.limit is None else str(one.limit)


def _counted(one: ConcurrencyKeyDocument) -> str:
    if one.scope is None:
        return NOTHING
    return "in all pools" if one.scope == "global" else f"in {one.pool}"
