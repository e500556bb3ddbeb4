"""Tables of tasks, a task's details and attempts, and the results of requests that change tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from rota.cli.tables.audit_tables import change
from rota.cli.tables.progress_line import bar
from rota.cli.tables.render import NOTHING, ago, blocks, exact, facts, labels, number, size, span, table, tolerance
from rota.client.calls.task_calls import HoldReport
from rota.model.answers import task_changes, tasks
from rota.model.answers.dead_letters import DeadLetterDocument

_MOST_PARENTS = 8
_BAR_CELLS = 10


def page(found: tasks.TaskPage, *, whole: bool = True) -> str:
    """`whole` False: the caller shows the other pages too, so the cursor is left out."""
    now = datetime.now(UTC)
    shown = any(task.progress or task.array for task in found.tasks)
    columns = (
        "ID>",
        "NAME~",
        "STATUS?",
        "STATE",
        *(("PROGRESS>",) if shown else ()),
        "NODE?",
        "CREATED>",
        "RAN>?",
        "EXIT>",
    )
    rows = [
        (
            str(task.id),
            _name(task),
            task.status,
            task.state,
            *((_progress(task),) if shown else ()),
            _text(task.node),
            ago(task.created_at, now),
            span(_ran(task, now)),
            _text(task.exit_code),
        )
        for task in found.tasks
    ]
    # The server searches a bounded number of tasks per page, so an empty page need not be the last.
    drawn = table(columns, rows, empty="none so far" if whole and found.next else "no tasks")
    if found.more_related:
        drawn += "\nthere are more: only the nearest 10,000 were searched"
    return f"{drawn}\nmore: the same with --cursor {found.next}" if whole and found.next else drawn


def _name(task: tasks.TaskSummary) -> str:
    """The name it has in its graph, with its own if that differs."""
    own = task.name or task.kind or NOTHING
    if not task.name_in_graph or task.name_in_graph == own:
        return own
    return f"{task.name_in_graph} ({task.name})" if task.name else task.name_in_graph


def _progress(task: tasks.TaskSummary) -> str:
    """The reported progress; for an array, a bar of the ended tasks."""
    if task.array is None:
        return _percent(task.progress)
    full = _BAR_CELLS * task.array.ended // max(1, task.array.size)
    return f"{blocks(full, _BAR_CELLS)} {task.array.ended}/{task.array.size}"


def letter(one: DeadLetterDocument) -> str:
    """The task, its attempts, and every earlier run."""
    parts = [task(one.task), _attempts(one.attempts)]
    if len(one.runs) > 1:
        columns = ("RUN>", "STATE", "ENDED>", "REASON~")
        now = datetime.now(UTC)
        rows = [(str(run.id), _text(run.state), ago(run.ended_at, now), run.reason or NOTHING) for run in one.runs]
        parts.append(table(columns, rows, empty=""))
    return "\n\n".join(parts)


def task(one: tasks.TaskDocument) -> str:
    now = datetime.now(UTC)
    pairs = [
        ("task", str(one.id)),
        ("name", one.name or ""),
        ("status", one.status),
        ("state", one.state if one.state != one.status else ""),
        ("progress", bar(one.progress.fraction, one.progress.message) if one.progress else ""),
        ("reason", one.reason or ""),
        ("what", work(one)),
        ("secrets", ", ".join(one.spec.get("secrets", ()))),
        ("may submit", "yes" if one.spec.get("may_submit") else ""),
        ("owner", "/".join(filter(None, (one.tenant, one.user)))),
        ("pool, lane", ", ".join(filter(None, (one.pool, _lane(one))))),
        ("category", one.category or ""),
        ("tier", one.tier or ""),
        ("scheduling", one.scheduling),
        ("schedule", f"{one.schedule}, for {exact(one.scheduled_for)}" if one.schedule and one.scheduled_for else ""),
        ("graph", _graph(one)),
        ("admitted by", one.admitted_by or ""),
        ("resources", _amounts(one.resources) if one.resources else ""),
        ("cpu limit", one.cpu_limit),
        ("requires", labels(one.require)),
        ("preemptible", "yes" if one.preemptible else ""),
        ("log limit", size(one.spec["log_limit"]) if "log_limit" in one.spec else ""),
        ("if unplaceable", "waits" if one.unplaceable == "wait" else ""),
        ("tags", labels(one.tags)),
        ("priority", str(one.priority) if one.priority else ""),
        ("cap", span(one.cap_seconds)),
        ("tolerance", tolerance(one.tolerance_seconds, one.tolerance_source, dropped=one.on_late == "drop")),
        ("try again in", span(one.retry_after) if one.retry_after is not None else ""),
        ("attempt", _attempt(one)),
        ("retries", _rules(one)),
        ("after", _after(one)),
        ("dependents", _dependents(one)),
        ("concurrency key", _key(one)),
        ("edited", "\n".join(f"{exact(edit.at)} by {edit.user}: {_edit(edit)}" for edit in one.edits)),
        ("history", "\n".join(map(change, one.history))),
        ("retry of", _text(one.retry_of)),
        ("retried as", _text(one.retried_as)),
        *((name, _moment(at, now)) for name, at in _moments(one)),
        ("node", _text(one.node)),
        ("ran", span(one.run_seconds)),
        ("used", _used(one)),
        ("exit code", _text(one.exit_code)),
        ("output", cut(one.log_bytes, one.log_dropped_bytes) if one.log_dropped_bytes else ""),
        ("result", _result(one)),
        ("outputs", _outputs(one)),
        ("failure", _failure(one)),
    ]
    return facts(pairs)


def cut(kept_bytes: int, dropped_bytes: int) -> str:
    kept = f"the beginning and the end of the output are kept, {size(kept_bytes)}"
    return f"{kept}; {dropped_bytes:,} bytes are left out (--log-limit)"


def _attempt(one: tasks.TaskDocument) -> str:
    if one.attempt <= one.attempts:
        return f"{one.attempt} of {one.attempts}"
    return f"{one.attempt}; {one.attempts} allowed, lost ones and those that gave way don't count"


def _rules(one: tasks.TaskDocument) -> str:
    rules = one.retry_rules
    if rules is None:
        return ""
    said = (("only on", rules.retry_on), ("not on", rules.fail_on))
    return "; ".join(f"{word} {', '.join(texts)}" for word, texts in said if texts)


def _after(one: tasks.TaskDocument) -> str:
    """Parents in the form that the drawing of a graph uses."""
    said = (("", one.after), ("end of ", one.after_end), ("failure of ", one.after_failed))
    return "; ".join(word + some(parents) for word, parents in said if parents)


def _dependents(one: tasks.TaskDocument) -> str:
    if len(one.dependents) <= _MOST_PARENTS:
        return some(one.dependents)
    return f"{some(one.dependents)}{' at least' if one.more_dependents else ''} (rota list --behind {one.id})"


def _graph(one: tasks.TaskDocument) -> str:
    """Its graph, and what it is there: `12, as extract`."""
    if one.index is not None:
        return f"{one.graph}, index {one.index}"
    return f"{one.graph}, as {one.name_in_graph}" if one.name_in_graph else _text(one.graph)


def some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_MOST_PARENTS]))
    return shown if len(numbers) <= _MOST_PARENTS else f"{shown} and {len(numbers) - _MOST_PARENTS} more"


def _lane(one: tasks.TaskDocument) -> str:
    """The lane it is in or ran in, and the original one if that was another."""
    if not one.submitted_lane or one.lane == one.submitted_lane:
        return one.lane
    return f"{one.lane} (submitted to {one.submitted_lane})"


def attempts(found: tasks.AttemptList) -> str:
    return _attempts(found.attempts)


def _attempts(found: Sequence[tasks.AttemptDocument]) -> str:
    now = datetime.now(UTC)
    columns = (
        "TASK>?",
        "NAME?",
        "ATTEMPT>",
        "OUTCOME",
        "NODE",
        "STARTED>",
        "RAN>",
        "FROZEN>?",
        "CPU>?",
        "MEMORY>?",
        "WRITTEN>?",
        "EXIT>",
        "LOG>?",
        "REASON~",
    )
    rows = [
        (
            str(one.task) if one.name else NOTHING,
            one.name or NOTHING,
            str(one.number),
            one.outcome or one.state or "running",
            _text(one.node),
            ago(one.started_at, now),
            span(_ran(one, now)),
            span(one.frozen_seconds),
            span(one.cpu_seconds),
            size(one.peak_memory_bytes),
            size(one.written_bytes),
            _text(one.exit_code),
            size(one.log_bytes) + (" (cut)" if one.log_dropped_bytes else ""),
            one.reason or (one.failure.message if one.failure else None) or NOTHING,
        )
        for one in found
    ]
    return table(columns, rows, empty="no attempts yet")


def ended(found: Sequence[tasks.EndedTask]) -> str:
    columns = ("ID>", "STATE", "EXIT>", "HOW~")
    rows = [
        (
            str(one.id),
            one.state,
            _text(one.exit_code),
            (one.failure.message if one.failure else None) or one.reason or NOTHING,
        )
        for one in found
    ]
    return table(columns, rows, empty="no tasks")


def extended(answer: task_changes.Extended) -> str:
    return f"task {answer.id} may run {span(answer.cap_seconds)}, counted from its start"


def cancelled(answer: task_changes.CancelAnswer) -> str:
    return f"task {answer.id} is {'being stopped' if answer.cancelling else 'cancelled'}"


def paused(answer: task_changes.PauseAnswer) -> str:
    return f"task {answer.id} is {'asked to save and stop' if answer.pausing else answer.state}"


def resumed(answer: task_changes.PauseAnswer) -> str:
    return f"task {answer.id} is {answer.state}"


def cancelled_many(answer: task_changes.CancelManyAnswer) -> str:
    columns = ("ID>", "ANSWER", "WHY NOT~")
    rows = [(str(task_id), "cancelled", NOTHING) for task_id in answer.cancelled]
    rows += [(str(task_id), "being stopped", NOTHING) for task_id in answer.cancelling]
    rows += [(str(one.id), "refused", one.reason) for one in answer.refused]
    return table(columns, rows, empty="nothing to cancel")


def edited(one: tasks.TaskDocument) -> str:
    return f"task {one.id}: {_edit(one.edits[-1])}"


def _edit(edit: tasks.EditDocument) -> str:
    return changes_text(edit.changes) or "nothing is different"


def changes_text(changes: Mapping[str, tuple[object, object]]) -> str:
    return ", ".join(
        f"{name.removesuffix('_seconds').replace('_', ' ')} {_change(name, *pair)}" for name, pair in changes.items()
    )


def _change(name: str, before: object, after: object) -> str:
    if name.endswith("_seconds") and isinstance(before, int | float) and isinstance(after, int | float):
        return f"{span(before)} → {span(after)}"
    return f"{before} → {after}"


def held(answer: HoldReport, word: str) -> str:
    """`word`: the request, held or released."""
    columns = ("ID>", "ANSWER", "WHY NOT~")
    rows = [(str(task_id), "held", NOTHING) for task_id in answer.held]
    rows += [(str(task_id), "released", NOTHING) for task_id in answer.released]
    for graph in answer.graphs:
        done = f"{word} {len(graph.held) + len(graph.released)}"
        rows.append((str(graph.id), done, f"{len(graph.running)} of its tasks run" if graph.running else NOTHING))
    rows += [(str(one.id), "refused", one.reason) for one in answer.refused]
    return table(columns, rows, empty="no tasks")


def title(one: tasks.TaskDocument) -> str:
    return one.name or work(one) or one.kind or NOTHING


def work(one: tasks.TaskDocument) -> str:
    """A short description of what the task runs."""
    command = one.spec.get("command")
    if isinstance(command, list):
        return " ".join(map(str, command))
    for kind in ("function", "path", "upload"):
        if one.spec.get(kind):
            return f"{kind} {one.spec[kind]}"
    return one.kind


def _outputs(one: tasks.TaskDocument) -> str:
    names = [output.name for output in one.outputs]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _percent(progress: tasks.ProgressDocument | None) -> str:
    return NOTHING if progress is None or progress.fraction is None else f"{progress.fraction:.0%}"


def _ran(one: tasks.TaskSummary | tasks.AttemptDocument, now: datetime) -> float | None:
    if one.run_seconds is not None or one.started_at is None or one.ended_at is not None:
        return one.run_seconds
    return max(0.0, (now - one.started_at).total_seconds())


def _amounts(given: tasks.Amounts) -> str:
    parts = [f"{number(given.cpu)} cpu", f"{size(given.memory_bytes)} memory"]
    parts += [f"{size(given.disk_bytes)} disk"] if given.disk_bytes else []
    parts += [f"{number(given.iops)} disk operations/s"] if given.iops else []
    parts += [f"{size(given.bandwidth_bits)}bit/s"] if given.bandwidth_bits else []
    parts += [f"{number(given.gpus)} gpu"] if given.gpus else []
    parts += [f"{given.ports} ports"] if given.ports else []
    return ", ".join(parts + [f"{amount} {name}" for name, amount in sorted(given.custom.items())])


def _moments(one: tasks.TaskDocument) -> list[tuple[str, datetime | None]]:
    waiting = one.started_at is None and not one.ended
    return [
        ("created", one.created_at),
        ("not before", one.not_before),
        ("start by", one.start_by if waiting else None),
        ("started", one.started_at),
        ("ended", one.ended_at),
    ]


def _moment(at: datetime | None, now: datetime) -> str:
    return NOTHING if at is None else f"{exact(at)} ({ago(at, now)})"


def _key(one: tasks.TaskDocument) -> str:
    if one.concurrency_key is None:
        return ""
    where = "in all pools" if one.concurrency_scope == "global" else "in its pool"
    return f"{one.concurrency_key}, {one.concurrency_limit or 1} at once {where}"


def _used(one: tasks.TaskDocument) -> str:
    parts = [f"{span(one.cpu_seconds)} cpu"] if one.cpu_seconds is not None else []
    parts += [f"{size(one.peak_memory_bytes)} memory"] if one.peak_memory_bytes else []
    parts += [f"{size(one.written_bytes)} written"] if one.written_bytes else []
    return ", ".join(parts)


def _result(one: tasks.TaskDocument) -> str:
    if one.result is None:
        return ""
    text = msgspec.json.encode(one.result).decode()
    return text if len(text) <= 200 else f"{text[:200]}… (rota result {one.id})"


def _failure(one: tasks.TaskDocument) -> str:
    if one.failure is None:
        return ""
    head = ": ".join(filter(None, (one.failure.type, one.failure.message)))
    return f"{head}\n{one.failure.traceback}".rstrip() if one.failure.traceback else head


def _text(value: object) -> str:
    return NOTHING if value is None else str(value)
