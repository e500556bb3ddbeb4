"""Draws tables and lists of facts, and formats times, sizes and the colours of states.

All values are escaped and none is read as markup: a task's name can neither colour the terminal nor move its cursor.
Rich is imported only when something is drawn.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from typing import TYPE_CHECKING, Any, Literal

import typer

from rota.cli.shell.terminal import escape
from rota.model.units import bytes_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

NOTHING = "–"
_NARROWEST = 8  # minimum width of a flexible column

_COLOURS = {
    "waiting": "yellow",
    "blocked": "yellow",
    "delayed": "yellow",
    "ready": "yellow",
    "paused": "magenta",
    "in progress": "cyan",
    "running": "cyan",
    "done": "green",
    "ok": "green",
    "up": "green",
    "draining": "magenta",
    "leaving": "magenta",
    "full": "bold red",
    "failed": "bold red",
    "error": "bold red",
    "lost": "bold red",
    "timeout": "bold red",
    "left": "bright_black",
    "cancelled": "bright_black",
    "skipped": "bright_black",
    "expired": "bright_black",
}


@dataclass(frozen=True, slots=True)
class Column:
    """On a narrow terminal, `flexible` columns are truncated first; then `optional` ones are left out, last first.

    An optional column without any value is left out on every terminal.
    """

    title: str
    align: Literal["left", "right"] = "left"
    flexible: bool = False
    optional: bool = False


def table(titles: Sequence[Column | str], rows: Iterable[Sequence[str]], *, empty: str) -> str:
    """Rows under titles, with states coloured. `empty` is the text for no rows.

    Marks after a title: `>` aligns right, `~` is a flexible column, `?` an optional one.
    """
    from rich.table import Table  # noqa: PLC0415 - slow
    from rich.text import Text  # noqa: PLC0415 - slow

    lines = [[Text(escape(cell), style=_COLOURS.get(cell, "")) for cell in row] for row in rows]
    if not lines:
        return empty
    columns = [title if isinstance(title, Column) else _column(title) for title in titles]
    filled = [
        place
        for place, column in enumerate(columns)
        if not column.optional or any(line[place].plain not in ("", NOTHING) for line in lines)
    ]
    columns, lines = [columns[place] for place in filled], [[line[place] for place in filled] for line in lines]
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    needed = [max(len(column.title), *(line[place].cell_len for line in lines)) for place, column in enumerate(columns)]
    widths = _fitted(columns, needed)
    for place, width in widths.items():
        title, align = Text(columns[place].title), columns[place].align
        drawn.add_column(title, justify=align, width=width, no_wrap=True, overflow="ellipsis")
    for line in lines:
        drawn.add_row(*(line[place] for place in widths))
    return _drawn(drawn)


def _column(title: str) -> Column:
    marks = title[len(title.rstrip(">~?")) :]
    return Column(title.rstrip(">~?"), "right" if ">" in marks else "left", "~" in marks, "?" in marks)


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, one per line; names without a value are left out."""
    from rich.table import Table  # noqa: PLC0415 - slow
    from rich.text import Text  # noqa: PLC0415 - slow

    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    drawn.add_column(style="bright_black", no_wrap=True)
    drawn.add_column(overflow="fold")
    for name, value in pairs:
        if value not in ("", NOTHING):
            drawn.add_row(Text(name), Text(escape(value), style=_COLOURS.get(value, "")))
    return _drawn(drawn)


def add_group(app: typer.Typer, name: str, help: str, **settings: Any) -> typer.Typer:
    group = typer.Typer(**settings)
    app.add_typer(group, name=name, help=help)
    return group


def add_command(
    group: typer.Typer, name: str, function: Callable[..., object], *examples: str, **settings: Any
) -> None:
    # Blank lines keep each example on its own line.
    epilog = "\n\n".join(("Examples:", *(f"  {line}" for line in examples)))
    group.command(name, epilog=epilog, **settings)(function)


def ago(moment: datetime | None, now: datetime) -> str:
    """`3m ago`, `in 2h`. The JSON has the exact time."""
    if moment is None:
        return NOTHING
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def span(seconds: float | None) -> str:
    """`0.25s`, `42s`, `3m12s`, `5h07m`, `12d`."""
    if seconds is None:
        return NOTHING
    if seconds < 10:
        return f"{seconds:.2f}".rstrip("0").rstrip(".") + "s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 2 * 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d"


_TOLERANCES = {
    "given": "given",
    "category": "of its category",
    "cap": "30 times its cap",
    "plan": "its plan's default",
}


def tolerance(seconds: float | None, source: str, *, dropped: bool = False) -> str:
    """How long a start may be delayed, and who said so."""
    if source == "none":
        return "none given"
    text = span(seconds) + (", then dropped" if dropped else "")
    return f"{text} ({_TOLERANCES[source]})" if source in _TOLERANCES else text


def exact(moment: datetime | None) -> str:
    return NOTHING if moment is None else moment.astimezone().isoformat(sep=" ", timespec="seconds")


def size(amount: int | None) -> str:
    return NOTHING if amount is None else bytes_text(amount)


def number(amount: float | None) -> str:
    return NOTHING if amount is None else f"{amount:g}" if amount < 10_000 else f"{amount:,.0f}"


def limit(amount: float | None) -> str:
    """A plan's limit; None is unlimited."""
    return "unlimited" if amount is None else number(amount)


def blocks(full: int, cells: int) -> str:
    """A bar: `████░░░░░░`."""
    full = min(cells, max(0, full))
    return "█" * full + "░" * (cells - full)


def labels(values: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(values.items())) or NOTHING


def _fitted(columns: Sequence[Column], needed: Sequence[int]) -> dict[int, int]:
    """The columns that fit on the terminal, by index, and their widths."""
    widths = dict(enumerate(needed))
    flexible = [place for place, column in enumerate(columns) if column.flexible]
    optional = [place for place, column in enumerate(columns) if column.optional]
    while sum(widths.values()) + 2 * (len(widths) - 1) > _width():
        widest = max(flexible, key=widths.__getitem__, default=None)
        if widest is not None and widths[widest] > _NARROWEST:
            widths[widest] -= 1
        elif optional:
            del widths[optional.pop()]
        else:
            break
    return widths


def _on_terminal() -> bool:
    return sys.stdout.isatty()


def _width() -> int:
    # A pipe has no width: truncate nothing, so that grep and awk see whole values.
    return shutil.get_terminal_size().columns if _on_terminal() else 10_000


def _drawn(what: RenderableType) -> str:
    console = _console()
    console.print(what)
    assert isinstance(console.file, StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip("\n").split("\n"))


def _console() -> Console:
    from rich.console import Console  # noqa: PLC0415 - slow

    return Console(file=StringIO(), force_terminal=_on_terminal(), width=_width(), highlight=False, emoji=False)
