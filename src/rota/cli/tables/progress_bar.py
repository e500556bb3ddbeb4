"""A bar on stderr that shows how many of a number of things are done. Only for a terminal; it is gone at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rota.cli.shell.terminal import escape


@contextmanager
def progress_bar(total: int | None) -> Iterator[Callable[[float, str], None]]:
    """Yields a function that takes how many are done, and words to show beside. `total` None: it is not known."""
    if not sys.stderr.isatty():
        yield lambda done, words: None
        return
    from rich.console import Console  # noqa: PLC0415 - slow
    from rich.markup import escape as no_markup  # noqa: PLC0415 - slow
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - slow

    columns = (
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("", total=total)
        yield lambda done, words: bar.update(line, completed=done, description=no_markup(escape(words)))
