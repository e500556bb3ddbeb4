"""The offline checker: judges what a cluster did from its rows, its clients' log and its tasks' own log.

It shares no code with src/rota, on purpose: it has its own SQL, its own numbers for states and outcomes, its
own idea of what an attempt is. It must never excuse anything because the product means well. `judge` is pure;
`test_history.py` plants one violation after the other and proves that each is caught.

How overlap is judged. A task that takes part appends `task attempt verb nanoseconds pid` lines to one file,
each in a single write (see `tests/modules/execution_log.py`). Before `start` it takes a kernel lock on the
task's own byte of a file beside it, without waiting, and keeps it until after `end`. So for an execution that
wrote its `end`, the times say when it ran (one machine, one monotonic clock). One that was killed never
writes `end`; it is taken to have run until its process died, and the kernel itself keeps that record: it lets
go of the lock at that moment and no earlier. A later execution that finds the lock taken writes `overlap`, or
`beside` if all that hold it are frozen: they can't act, and if one of them ever writes its `end`, its times
overlap. No sampling, no tolerance, no clock.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

FINAL = {10: "done", 11: "failed", 12: "cancelled", 13: "skipped", 14: "expired"}
DONE, FAILED = 10, 11
OK, LOST, BAD_RESULT = 1, 5, 9
COUNTED = {2, 3, 7, 8, 9}  # error, timeout, refused, crashed, bad result: outcomes that use up an attempt
MOST_LOSSES = 3
BLOCKED, DELAYED, RUNNING = 1, 2, 4
MARK = b"ROTA_WORKDIR="


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    task: int | None
    story: str

    def __str__(self) -> str:
        return f"{self.rule}: task {self.task}: {self.story}" if self.task else f"{self.rule}: {self.story}"


# ---- what clients saw --------------------------------------------------------------------------------------


@dataclass(slots=True)
class ClientLog:
    """Every submission by idempotency key: attempted before it is sent, acknowledged when a 2xx came back.

    A key that was attempted and never acknowledged is unknown: it may have become one task, or none. Threads
    may share it; each method is one step under the interpreter's lock.
    """

    attempted: set[str] = field(default_factory=set)
    acknowledged: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    errors: list[str] = field(default_factory=list)  # answers other than 2xx, for the curious

    def attempt(self, key: str) -> None:
        self.attempted.add(key)

    def acknowledge(self, key: str, task: int) -> None:
        self.acknowledged[key].add(task)

    def fail(self, why: str) -> None:
        self.errors.append(why)

    @property
    def tasks(self) -> list[int]:
        # A copy first: submitters write into it from threads of their own.
        return sorted(task for tasks in list(self.acknowledged.values()) for task in tasks)

    @property
    def unknown(self) -> set[str]:
        return self.attempted - self.acknowledged.keys()


# ---- what tasks wrote themselves ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Execution:
    """One physical execution. `ended_ns` is None when it never wrote its end: it was killed."""

    task: int
    attempt: int
    pid: int
    started_ns: int
    ended_ns: int | None = None
    found_locked: bool = False  # another execution of the same task was alive when this one began


def read_executions(path: Path) -> tuple[list[Execution], list[Violation]]:
    """The execution log. A line that can't be read is a violation: a damaged log proves nothing."""
    text = path.read_text() if path.exists() else ""
    began: dict[tuple[int, int, int], list[Execution]] = defaultdict(list)
    damaged: list[Violation] = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            task, attempt, verb, at, pid = line.split()
            key = (int(task), int(attempt), int(pid))
            if verb in ("start", "beside", "overlap"):
                began[key].append(Execution(*key, int(at), None, verb == "overlap"))
            elif verb == "end" and key in began and began[key][-1].ended_ns is None:
                open_one = began[key].pop()
                began[key].append(Execution(*key, open_one.started_ns, int(at), open_one.found_locked))
            else:
                raise ValueError(verb)
        except ValueError:
            damaged.append(Violation("damaged-log", None, f"{path.name} line {number}: {line[:100]!r}"))
    executions = [execution for several in began.values() for execution in several]
    return sorted(executions, key=lambda one: one.started_ns), damaged


# ---- what the database says --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskRow:
    id: int
    key: str | None
    attempts: int  # allowed


@dataclass(frozen=True, slots=True)
class LiveRow:
    """A row of `queue`."""

    id: int
    state: int
    attempt: int
    has_timer: bool = False
    has_edges: bool = False
    is_placed: bool = False  # node and boot are set


@dataclass(frozen=True, slots=True)
class AttemptRow:
    task: int
    number: int
    state: int  # the task's final state, 0 while it went on
    outcome: int


@dataclass(slots=True)
class Records:
    tasks: list[TaskRow] = field(default_factory=list)
    live: list[LiveRow] = field(default_factory=list)
    attempts: list[AttemptRow] = field(default_factory=list)
    dead_letters: list[int] = field(default_factory=list)


async def read_records(url: str) -> Records:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            tasks = await connection.fetch("select id, idempotency_key, attempts from tasks")
            live = await connection.fetch(
                """select id, state, attempt, wake_at is not null,
                        exists (select from edges where edges.child = queue.id),
                        node is not null and boot is not null
                    from queue"""
            )
            attempts = await connection.fetch("select task, number, state, outcome from attempts")
            dead = await connection.fetch("select task from dead_letters")
    finally:
        await connection.close()
    return Records(
        [TaskRow(*row) for row in tasks],
        [LiveRow(*row) for row in live],
        [AttemptRow(*row) for row in attempts],
        [row[0] for row in dead],
    )


# ---- the verdict -------------------------------------------------------------------------------------------


def judge(
    records: Records,
    clients: ClientLog,
    executions: Sequence[Execution],
    *,
    logged: bool = True,
    drained: bool = True,
) -> list[Violation]:
    """Everything that is wrong with this history.

    `logged`: every task writes the execution log. `drained`: the run was healed and given time, so nothing
    may be left to do.
    """
    by_task: dict[int, list[AttemptRow]] = defaultdict(list)
    for row in records.attempts:
        by_task[row.task].append(row)
    live = {row.id: row for row in records.live}
    return [
        *_submissions(records, clients),
        *_ends(records, clients, by_task, live),
        *_numbers(by_task, live),
        *_limits(records, by_task),
        *_dead_letters(records),
        *_executions(executions, by_task, live),
        *_overlaps(executions),
        *(_complete(executions, records) if logged else ()),
        *_stuck(records),
        *(_left_to_do(records) if drained else ()),
    ]


def _submissions(records: Records, clients: ClientLog) -> Iterable[Violation]:
    """I1, I2: acknowledged is there, unknown is there at most once, and nothing else is."""
    rows = {row.id: row for row in records.tasks}
    for task, count in Counter(row.id for row in records.tasks).items():
        if count > 1:
            yield Violation("repeated-id", task, f"{count} task rows")
    for key, count in Counter(row.key for row in records.tasks if row.key is not None).items():
        if count > 1:
            yield Violation("repeated-key", None, f"key {key} became {count} tasks")
    for key, tasks in clients.acknowledged.items():
        if len(tasks) > 1:
            yield Violation("repeated-key", None, f"key {key} was answered with several tasks: {sorted(tasks)}")
        for task in sorted(tasks):
            row = rows.get(task)
            if row is None:
                yield Violation("lost", task, f"acknowledged for key {key}, and there is no such task")
            elif row.key != key:
                yield Violation("mixed-up", task, f"acknowledged for key {key}, but stored under {row.key}")
    for row in records.tasks:
        if row.key not in clients.attempted:
            yield Violation("invented", row.id, f"nobody submitted its key {row.key}")


def _ends(
    records: Records, clients: ClientLog, by_task: dict[int, list[AttemptRow]], live: dict[int, LiveRow]
) -> Iterable[Violation]:
    """I1: exactly one final state, of every task there is and every task that was acknowledged."""
    known = {row.id for row in records.tasks} | set(clients.tasks)
    for task in sorted(known | by_task.keys() | live.keys()):
        finals = [row for row in by_task[task] if row.state != 0]
        states = [FINAL.get(row.state, f"state {row.state}") for row in finals]
        if len(finals) > 1:
            yield Violation("several-ends", task, f"ended {len(finals)} times: {', '.join(states)}")
        if finals and task in live:
            yield Violation("ended-and-live", task, f"ended {states[0]} and is in the queue all the same")
        if not finals and task not in live:
            yield Violation("lost", task, "no final state, and not in the queue either")
        if any(row.state not in FINAL for row in finals):
            yield Violation("unknown-end", task, f"ended in {', '.join(states)}")
        if task not in known:
            yield Violation("invented", task, "has attempts or a queue row but no task row")


def _numbers(by_task: dict[int, list[AttemptRow]], live: dict[int, LiveRow]) -> Iterable[Violation]:
    """I5: 1..n, and the last row ends the task. Number 0, an end without a start, is always final."""
    for task, rows in by_task.items():
        numbers = sorted(row.number for row in rows if row.number != 0)
        if numbers != list(range(1, len(numbers) + 1)):
            yield Violation("numbers", task, f"attempts are numbered {numbers}")
        for row in rows:
            is_last = row.number == 0 or row.number == max(numbers)
            if row.state != 0 and not is_last:
                yield Violation("numbers", task, f"attempt {row.number} ended it, and {max(numbers)} came after")
            if row.number == 0 and row.state == 0:
                yield Violation("numbers", task, "attempt 0 did not end it")
        row = live.get(task)
        if row is not None:
            ahead = 1 if row.state == RUNNING else 0
            if row.attempt != len(numbers) + ahead:
                yield Violation("numbers", task, f"the queue says attempt {row.attempt}, {len(numbers)} have ended")


def _limits(records: Records, by_task: dict[int, list[AttemptRow]]) -> Iterable[Violation]:
    """I19: no more attempts than allowed, and a failure that its attempts explain."""
    for row in records.tasks:
        rows = by_task.get(row.id, [])
        counted = sum(attempt.outcome in COUNTED for attempt in rows)
        losses = sum(attempt.outcome == LOST for attempt in rows)
        if counted > row.attempts:
            yield Violation("over-limit", row.id, f"{counted} attempts counted, {row.attempts} allowed")
        if losses > MOST_LOSSES:
            yield Violation("over-limit", row.id, f"lost with its worker {losses} times")
        for attempt in rows:
            explained = counted >= row.attempts or losses >= MOST_LOSSES or attempt.outcome == BAD_RESULT
            if attempt.state == FAILED and not explained:
                story = f"failed after {counted} of {row.attempts} attempts and {losses} losses"
                yield Violation("failed-early", row.id, story)
            if (attempt.state == DONE) != (attempt.outcome == OK):
                story = f"attempt {attempt.number}: outcome {attempt.outcome}, final state {attempt.state}"
                yield Violation("wrong-end", row.id, story)


def _dead_letters(records: Records) -> Iterable[Violation]:
    """I20: a failed task is a dead letter, once, and nothing else is."""
    failed = {row.task for row in records.attempts if row.state == FAILED}
    for task, count in Counter(records.dead_letters).items():
        if count > 1 or task not in failed:
            yield Violation("dead-letter", task, f"{count} dead letters, failed: {task in failed}")
    for task in sorted(failed - set(records.dead_letters)):
        yield Violation("dead-letter", task, "failed without a dead letter")


def _executions(
    executions: Sequence[Execution], by_task: dict[int, list[AttemptRow]], live: dict[int, LiveRow]
) -> Iterable[Violation]:
    """I9, I10: what ran had been authorised, under that number, and ran once."""
    recorded = {(row.task, row.number) for rows in by_task.values() for row in rows}
    recorded |= {(row.id, row.attempt) for row in live.values() if row.state == RUNNING}
    counts = Counter((one.task, one.attempt) for one in executions)
    for (task, attempt), count in counts.items():
        if (task, attempt) not in recorded:
            yield Violation("unauthorised", task, f"attempt {attempt} ran, and no row knows of it")
        if count > 1:
            yield Violation("ran-again", task, f"attempt {attempt} was started {count} times")


def _overlaps(executions: Sequence[Execution]) -> Iterable[Violation]:
    """I6: no two at the same time. The top of this file says how long one without an end is taken to run."""
    latest: dict[int, Execution] = {}
    for one in sorted(executions, key=lambda one: one.started_ns):
        before = latest.get(one.task)
        if one.found_locked:
            alive = f"attempt {before.attempt} (pid {before.pid})" if before else "another execution"
            yield Violation("overlap", one.task, f"attempt {one.attempt} began while {alive} was alive")
        if before is not None and before.ended_ns is not None and one.started_ns < before.ended_ns:
            early = (before.ended_ns - one.started_ns) / 1e6
            story = f"attempt {one.attempt} began {early:.3f} ms before attempt {before.attempt} ended"
            yield Violation("overlap", one.task, story)
        if before is None or (one.ended_ns or one.started_ns) > (before.ended_ns or before.started_ns):
            latest[one.task] = one


def _complete(executions: Sequence[Execution], records: Records) -> Iterable[Violation]:
    """An attempt recorded as successful ran to its own end."""
    complete = {(one.task, one.attempt) for one in executions if one.ended_ns is not None}
    for row in records.attempts:
        if row.outcome == OK and (row.task, row.number) not in complete:
            yield Violation("done-without-run", row.task, f"attempt {row.number} succeeded without running")


def _stuck(records: Records) -> Iterable[Violation]:
    """I24: live rows that nothing would ever move again."""
    for row in records.live:
        if row.state == BLOCKED and not row.has_edges:
            yield Violation("stuck", row.id, "blocked by nothing")
        if row.state == DELAYED and not row.has_timer:
            yield Violation("stuck", row.id, "delayed until never")
        if row.state == RUNNING and not row.is_placed:
            yield Violation("stuck", row.id, "running nowhere")


def _left_to_do(records: Records) -> Iterable[Violation]:
    for row in records.live:
        yield Violation("unfinished", row.id, f"still in the queue, in state {row.state}, after everything healed")


# ---- what is left on the machine ---------------------------------------------------------------------------


def leftovers(data_folders: Iterable[Path]) -> list[Violation]:
    """I22: processes, cgroups and scratch of the agents that worked in these folders, as things are now."""
    found: list[Violation] = []
    for folder in (Path(os.path.realpath(folder)) for folder in data_folders):
        for pid, why in _processes_of(folder):
            found.append(Violation("leftover-process", None, f"{folder.name}: pid {pid}, {why}"))
        for path in _cgroups_of(folder):
            found.append(Violation("leftover-cgroup", None, f"{folder.name}: {path}"))
        if (folder / "work").is_dir():
            for name in os.listdir(folder / "work"):
                found.append(Violation("leftover-scratch", None, f"{folder.name}: work/{name}"))
    return found


def leftovers_after(data_folders: Iterable[Path], *, seconds: float = 5.0) -> list[Violation]:
    """What is left when the time I22 grants is up; returns as soon as there is nothing."""
    folders = list(data_folders)
    deadline = time.monotonic() + seconds
    while (found := leftovers(folders)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _processes_of(folder: Path) -> Iterable[tuple[int, str]]:
    wanted = os.fsencode(folder)
    digest = hashlib.blake2b(wanted + b"/work", digest_size=16).hexdigest()  # in the sight of a sandboxed task
    marks = (MARK + wanted + b"/", MARK + digest.encode() + b"/")
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            environment = Path(f"/proc/{name}/environ").read_bytes()
            command = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue  # gone while we looked
        if any(entry.startswith(marks) for entry in environment.split(b"\0")):
            yield int(name), "marked as a task's"
        elif any(part == wanted or part.startswith(wanted + b"/") for part in command.split(b"\0")):
            yield int(name), command.replace(b"\0", b" ").decode(errors="replace")[:120]


def _cgroups_of(folder: Path) -> Iterable[str]:
    """An agent's own cgroup is named for its data folder."""
    name = "rota-" + hashlib.blake2b(os.fsencode(folder), digest_size=6).hexdigest()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.startswith("cgroup2 "):
            for place, folders, _ in os.walk(fields.split()[4]):
                if name in folders:
                    yield f"{place}/{name}"
