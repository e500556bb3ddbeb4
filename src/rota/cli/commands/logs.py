"""`rota logs`: the output of a task, whole or followed.

The bytes pass unchanged to a file or a pipe, and are made harmless for a terminal (`terminal.py`).
"""

from __future__ import annotations

import base64
import sys
from typing import Annotated

import msgspec
import typer

from rota.cli.shell import checks, output
from rota.cli.shell.connection import FOLLOW_RETRY_SECONDS, TaskId, connect, leaving_tasks_running, of_one_task
from rota.cli.shell.output import Format, Output, Raw
from rota.cli.shell.terminal import TaskOutput
from rota.cli.tables import task_tables
from rota.cli.tables.render import add_command
from rota.client.transport.log_reader import LogChunk, LogEnd, LogItem, LogProgress


def add_to(app: typer.Typer) -> None:
    add_command(
        app,
        "logs",
        of_one_task(logs),
        "rota logs 7",
        "rota logs -f --tail 20 7",
        "rota logs --since 10m 7",
        "rota logs 7 --attempt 1 --stderr > why.txt",
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
    raw: Raw = False,
    output_format: Output = Format.TABLE,
) -> None:
    """Show what a task wrote to standard output and standard error."""
    stream = None if stdout == stderr else "stdout" if stdout else "stderr"
    since = checks.since("--since", since)
    if follow:
        _follow(task_id, attempt=attempt, stream=stream, since=since, tail=tail, raw=raw, output_format=output_format)
        return
    with connect() as client:
        data = client.log(task_id, attempt=attempt, stream=stream, since=since, tail=tail)
        if attempt is not None and not data and client.get(task_id).attempt < attempt:
            raise checks.wrong("--attempt", f"task {task_id} has had no attempt {attempt} (rota attempts {task_id})")
        had = client.attempts(task_id)
        kept, dropped = next(
            ((one.log_bytes, one.log_dropped_bytes) for one in had[::-1] if attempt in (None, one.number)), (0, 0)
        )
    if output_format is Format.JSON:
        text = data.decode(errors="backslashreplace")
        document = {"id": task_id, "attempt": attempt, "stream": stream, "log": text, "dropped_bytes": dropped}
        output.document(msgspec.json.encode(document))
        return
    target = TaskOutput(sys.stdout.buffer, raw=raw or not sys.stdout.isatty())
    target.write(data)
    target.finish()
    if dropped:
        output.note(task_tables.cut(kept, dropped))


def _follow(
    task_id: int,
    *,
    attempt: int | None,
    stream: str | None,
    since: str | None,
    tail: int | None,
    raw: bool,
    output_format: Format,
) -> None:
    target = TaskOutput(sys.stdout.buffer, raw=raw or not sys.stdout.isatty())
    with leaving_tasks_running([task_id]), connect(FOLLOW_RETRY_SECONDS) as client:
        for item in client.follow(task_id, attempt=attempt, stream=stream, since=since, tail=tail):
            if isinstance(item, LogChunk) and stream not in (None, item.stream):
                continue
            if output_format is Format.JSON:
                output.document(_line(item))
            elif isinstance(item, LogEnd):
                target.finish()
                if item.dropped_bytes:
                    output.note(task_tables.cut(item.kept_bytes, item.dropped_bytes))
            elif isinstance(item, LogChunk):
                target.write(item.data)


def _line(item: LogItem) -> bytes:
    """The item as a line of the API's stream."""
    if isinstance(item, LogProgress):
        return msgspec.json.encode({"progress": {"fraction": item.fraction, "message": item.message}})
    if isinstance(item, LogEnd):
        end = {
            "end": True,
            "state": item.state,
            "exit_code": item.exit_code,
            "kept_bytes": item.kept_bytes,
            "dropped_bytes": item.dropped_bytes,
        }
        return msgspec.json.encode(end)
    data = base64.b64encode(item.data).decode()
    return msgspec.json.encode({"attempt": item.attempt, "seq": item.seq, "stream": item.stream, "data_base64": data})
