"""`rota logs`: the output of a task, an array or a graph, stored or followed.

The bytes pass unchanged to a file or a pipe, and are made harmless for a terminal (`terminal.py`). A line of its own
says where output is left out, and whose output follows.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from rota.cli.shell import checks, output
from rota.cli.shell.connection import FOLLOW_RETRY_SECONDS, TaskId, connect, leaving_tasks_running
from rota.cli.shell.output import Format, Output, Raw
from rota.cli.shell.terminal import TaskOutput
from rota.cli.tables import task_tables
from rota.cli.tables.render import add_command
from rota.client.options import LogOptions
from rota.client.transport.log_reader import LogChunk, LogEnd, LogItem, LogProgress, LogReader
from rota.model.output import MarkedText, heading

if TYPE_CHECKING:
    from rota.client._sync.client import Client

_MOST_HELD_BYTES = 1024 * 1024  # of a line that does not end


def add_to(app: typer.Typer) -> None:
    add_command(
        app,
        "logs",
        logs,
        "rota logs 7",
        "rota logs -f --tail 20 7",
        "rota logs --since 10m 7",
        "rota logs 7 --attempt 1 --stderr > why.txt",
        "rota logs 12 --stderr --tail 5 --all   (12: an array or a graph)",
    )


def logs(
    task_id: TaskId,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep following until the task has ended.")] = False,
    attempt: Annotated[int | None, typer.Option(min=1, help="Number of the attempt. [default: the latest]")] = None,
    stdout: Annotated[bool, typer.Option("--stdout", help="Only standard output.")] = False,
    stderr: Annotated[bool, typer.Option("--stderr", help="Only standard error.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Only output since, e.g. 10m or 2026-03-01T08:00Z.")
    ] = None,
    tail: Annotated[int | None, typer.Option(min=0, max=1_000_000, help="Only the last N lines.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Tasks a page, of an array or a graph.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Cursor of the next page, as printed below the last one.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all pages.")] = False,
    raw: Raw = False,
    output_format: Output = Format.TABLE,
) -> None:
    """Show what a task wrote to standard output and standard error. Of an array or a graph, what each task wrote.

    If a task wrote more than its log limit, the beginning and the end are kept, and a line says how much is left out.
    """
    stream = None if stdout == stderr else "stdout" if stdout else "stderr"
    options: LogOptions = {
        "attempt": attempt,
        "stream": stream,
        "since": checks.since("--since", since),
        "tail": tail,
    }
    if follow:
        _follow(task_id, options, raw=raw, output_format=output_format)
        return
    with connect() as client:
        while True:
            reader = LogReader(task_id, follow=False, limit=limit, cursor=cursor, **options)
            items = (item for item in client.read_log(reader) if isinstance(item, LogChunk))
            if output_format is Format.TABLE:
                is_empty = _print(items, raw=raw)
                tasks: list[dict[str, Any]] = []
            else:
                tasks = _documents(items)
                is_empty = not tasks
            if not reader.is_group:
                _end_single(client, task_id, options, tasks, is_empty=is_empty, output_format=output_format)
                return
            cursor = reader.next
            if output_format is Format.JSON:
                output.document(msgspec.json.encode({"id": task_id, "tasks": tasks, "next": cursor}))
            elif cursor is not None and not everything:
                output.note(f"there are more tasks: rota logs {task_id} --cursor {cursor}, or --all")
            if cursor is None or not everything:
                return


def _print(chunks: Iterable[LogChunk], *, raw: bool) -> bool:
    """Print the chunks, those of an array or a graph below headings. Whether there were none."""
    target = TaskOutput(sys.stdout.buffer, raw=raw or not sys.stdout.isatty())
    task: int | None = None
    marked = MarkedText()
    for chunk in chunks:
        if chunk.task and chunk.task != task:
            target.write(marked.end_line() + heading(chunk.task, chunk.name))
            marked = MarkedText()
        task = chunk.task
        target.write(marked.add(chunk.stream, chunk.data, left_out_bytes=chunk.left_out_bytes))
    if task:
        target.write(marked.end_line())
    target.finish()
    return task is None


def _documents(chunks: Iterable[LogChunk]) -> list[dict[str, Any]]:
    """The output of each task as a text, and what is left out of it."""
    found: dict[int, dict[str, Any]] = {}
    texts: dict[int, list[bytes]] = {}
    marked: dict[int, MarkedText] = {}
    for one in chunks:
        document = found.setdefault(
            one.task, {"id": one.task, "name": one.name, "index": one.index, "attempt": one.attempt, "left_out": []}
        )
        if one.left_out_bytes:
            gap = {"stream": one.stream, "offset": one.offset - one.left_out_bytes, "bytes": one.left_out_bytes}
            document["left_out"].append(gap)
        shown = marked.setdefault(one.task, MarkedText()).add(one.stream, one.data, left_out_bytes=one.left_out_bytes)
        texts.setdefault(one.task, []).append(shown)
    for task, parts in texts.items():
        found[task]["log"] = b"".join(parts).decode(errors="backslashreplace")
    return list(found.values())


def _end_single(
    client: Client,
    task_id: int,
    options: LogOptions,
    documents: list[dict[str, Any]],
    *,
    is_empty: bool,
    output_format: Format,
) -> None:
    """Say what is missing from the output of a single task, and print its document."""
    attempt = options.get("attempt")
    if attempt is not None and is_empty and client.get(task_id).attempt < attempt:
        raise checks.wrong("--attempt", f"task {task_id} has had no attempt {attempt} (rota attempts {task_id})")
    had = client.attempts(task_id)
    kept, dropped = next(
        ((one.log_bytes, one.log_dropped_bytes) for one in had[::-1] if attempt in (None, one.number)), (0, 0)
    )
    if output_format is Format.JSON:
        text, left_out = (documents[0]["log"], documents[0]["left_out"]) if documents else ("", [])
        document = {"id": task_id, "attempt": attempt, "stream": options.get("stream"), "log": text}
        output.document(msgspec.json.encode(document | {"dropped_bytes": dropped, "left_out": left_out}))
    elif dropped:
        output.note(task_tables.cut(kept, dropped))


def _follow(task_id: int, options: LogOptions, *, raw: bool, output_format: Format) -> None:
    target = TaskOutput(sys.stdout.buffer, raw=raw or not sys.stdout.isatty())
    stream, marked, prefixed = options.get("stream"), MarkedText(), PrefixedLines()
    with leaving_tasks_running([task_id]), connect(FOLLOW_RETRY_SECONDS) as client:
        for item in client.follow(task_id, **options):
            if isinstance(item, LogChunk) and stream not in (None, item.stream):
                continue
            if output_format is Format.JSON:
                output.document(_line(item))
            elif isinstance(item, LogChunk):
                target.write(
                    prefixed.add(item)
                    if item.task
                    else marked.add(item.stream, item.data, left_out_bytes=item.left_out_bytes)
                )
            elif isinstance(item, LogEnd):
                target.write(prefixed.end(item.task))
                if item.dropped_bytes:
                    whose = f"task {item.task}: " if item.task else ""
                    output.note(whose + task_tables.cut(item.kept_bytes, item.dropped_bytes))
        target.finish()


class PrefixedLines:
    """The output of several tasks at once: whole lines, each behind the task that wrote it."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, str], bytes] = {}  # the beginning of a line, by task and stream
        self._marked: dict[tuple[int, str], MarkedText] = {}
        self._prefixes: dict[int, bytes] = {}

    def add(self, chunk: LogChunk) -> bytes:
        key = (chunk.task, chunk.stream)
        self._prefixes[chunk.task] = f"{chunk.task} {chunk.name} | ".encode()
        marked = self._marked.setdefault(key, MarkedText())
        text = self._held.pop(key, b"") + marked.add(chunk.stream, chunk.data, left_out_bytes=chunk.left_out_bytes)
        lines = text.splitlines(keepends=True) if b"\n" in text else [text]
        if not text.endswith(b"\n") and len(lines[-1]) < _MOST_HELD_BYTES:
            self._held[key] = lines.pop()
        return b"".join(self._prefixes[chunk.task] + line for line in lines)

    def end(self, task: int) -> bytes:
        """The task has ended: the beginnings of lines that it left."""
        left = [self._held.pop(key) for key in list(self._held) if key[0] == task]
        return b"".join(self._prefixes[task] + text + b"\n" for text in left)


def _line(item: LogItem) -> bytes:
    """The item as a line of the API's stream."""
    whose: dict[str, Any] = {"task": item.task} if item.task else {}
    if isinstance(item, LogProgress):
        return msgspec.json.encode(whose | {"progress": {"fraction": item.fraction, "message": item.message}})
    if isinstance(item, LogEnd):
        if item.graph:
            return msgspec.json.encode({"graph": item.graph, "end": True, "state": item.state})
        end = {
            "end": True,
            "state": item.state,
            "exit_code": item.exit_code,
            "kept_bytes": item.kept_bytes,
            "dropped_bytes": item.dropped_bytes,
        }
        return msgspec.json.encode(whose | end)
    if item.task:
        whose["name"] = item.name
    if item.index is not None:
        whose["index"] = item.index
    data = base64.b64encode(item.data).decode()
    line = whose | {"attempt": item.attempt, "seq": item.seq, "stream": item.stream, "data_base64": data}
    if item.offset >= 0:
        line["offset"] = item.offset
    if item.left_out_bytes:
        line["left_out_bytes"] = item.left_out_bytes
    return msgspec.json.encode(line)
