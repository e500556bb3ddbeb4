"""Proof of the checker: a healthy history is clean, and every violation planted in one is caught.

Each plant changes one thing in a history that is right, and names the rule that must fire; nothing else may.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest

from tests.harness.history import (
    AttemptRow,
    ClientLog,
    Execution,
    LiveRow,
    Records,
    TaskRow,
    judge,
    leftovers,
    leftovers_after,
    read_executions,
    read_records,
)

MODULES = Path(__file__).parents[1] / "modules"


@dataclass
class History:
    """Five tasks: done at once (1), failed once then done (2), dead (3), lost with its worker then done (4),
    cancelled before it ran (5). Plants change it.
    """

    records: Records = field(default_factory=Records)
    clients: ClientLog = field(default_factory=ClientLog)
    executions: list[Execution] = field(default_factory=list)

    def add(self, task: int, rows: list[tuple[int, int, int]], *, attempts: int = 1) -> None:
        key = f"key-{task}"
        self.clients.attempt(key)
        self.clients.acknowledge(key, task)
        self.records.tasks.append(TaskRow(task, key, attempts))
        self.records.attempts += [AttemptRow(task, *row) for row in rows]

    def run(self, task: int, attempt: int, start: int, end: int | None, *, locked: bool = False) -> None:
        self.executions.append(Execution(task, attempt, 1000 + task, start, end, locked))

    def rules(self) -> set[str]:
        return {violation.rule for violation in judge(self.records, self.clients, self.executions)}


def healthy() -> History:
    history = History()
    history.add(1, [(1, 10, 1)])
    history.run(1, 1, 100, 200)
    history.add(2, [(1, 0, 2), (2, 10, 1)], attempts=3)
    history.run(2, 1, 100, 200)
    history.run(2, 2, 300, 400)
    history.add(3, [(1, 11, 2)])
    history.run(3, 1, 100, 200)
    history.records.dead_letters.append(3)
    history.add(4, [(1, 0, 5), (2, 10, 1)])
    history.run(4, 1, 100, None)
    history.run(4, 2, 150, 250)
    history.add(5, [(0, 12, 11)])
    history.clients.attempt("never-answered")
    return history


def test_a_healthy_history_is_clean() -> None:
    assert judge(healthy().records, healthy().clients, healthy().executions) == []


def lose_an_acknowledged_task(history: History) -> None:
    history.clients.attempt("key-9")
    history.clients.acknowledge("key-9", 9)


def lose_a_stored_task(history: History) -> None:
    history.records.tasks.append(TaskRow(9, "never-answered", 1))


def lose_the_end_of_a_task(history: History) -> None:
    history.records.attempts[0] = AttemptRow(1, 1, 0, 2)


def invent_a_task(history: History) -> None:
    history.records.tasks.append(TaskRow(9, "nobody-sent-this", 1))
    history.records.attempts.append(AttemptRow(9, 0, 12, 11))


def invent_attempts_without_a_task(history: History) -> None:
    history.records.attempts.append(AttemptRow(9, 0, 12, 11))


def store_one_key_twice(history: History) -> None:
    history.records.tasks.append(TaskRow(9, "key-1", 1))
    history.records.attempts.append(AttemptRow(9, 0, 12, 11))


def answer_one_key_with_two_tasks(history: History) -> None:
    history.clients.acknowledge("never-answered", 1)
    history.clients.acknowledge("never-answered", 2)
    history.records.tasks[0] = TaskRow(1, "never-answered", 1)
    history.records.tasks[1] = TaskRow(2, "never-answered", 3)
    del history.clients.acknowledged["key-1"], history.clients.acknowledged["key-2"]


def answer_with_somebody_elses_task(history: History) -> None:
    history.clients.acknowledged["key-1"] = {2}


def end_a_task_twice(history: History) -> None:
    history.records.attempts[1] = AttemptRow(2, 1, 12, 2)


def end_a_task_that_stays_in_the_queue(history: History) -> None:
    history.records.live.append(LiveRow(1, 3, 1))


def end_in_a_state_that_is_none(history: History) -> None:
    history.records.attempts[0] = AttemptRow(1, 1, 4, 1)


def skip_an_attempt_number(history: History) -> None:
    history.records.attempts[2] = AttemptRow(2, 3, 10, 1)
    history.executions[2] = Execution(2, 3, 1002, 300, 400)


def repeat_an_attempt_number(history: History) -> None:
    history.records.attempts.append(AttemptRow(2, 1, 0, 10))


def go_on_after_the_end(history: History) -> None:
    history.records.attempts[1], history.records.attempts[2] = AttemptRow(2, 1, 10, 1), AttemptRow(2, 2, 0, 2)


def forget_an_attempt_of_a_live_task(history: History) -> None:
    history.records.attempts[2:3] = []
    history.executions[2:3] = []
    history.records.live.append(LiveRow(2, 4, 3, is_placed=True))


def exceed_the_attempts_allowed(history: History) -> None:
    history.records.tasks[1] = TaskRow(2, "key-2", 1)
    history.records.attempts[2] = AttemptRow(2, 2, 11, 2)
    history.records.dead_letters.append(2)


def lose_a_worker_four_times(history: History) -> None:
    history.records.attempts[4:6] = [AttemptRow(4, number, 0, 5) for number in range(1, 5)]
    history.records.attempts.append(AttemptRow(4, 5, 10, 1))
    history.run(4, 3, 260, None)
    history.run(4, 4, 270, None)
    history.run(4, 5, 280, 300)


def fail_without_using_the_attempts(history: History) -> None:
    history.records.tasks[2] = TaskRow(3, "key-3", 5)


def call_a_failure_done(history: History) -> None:
    history.records.attempts[0] = AttemptRow(1, 1, 10, 2)


def call_a_success_failed(history: History) -> None:
    history.records.attempts[3] = AttemptRow(3, 1, 11, 1)


def forget_a_dead_letter(history: History) -> None:
    history.records.dead_letters.clear()


def bury_the_living(history: History) -> None:
    history.records.dead_letters.append(1)


def run_without_a_row(history: History) -> None:
    history.run(1, 2, 300, 400)


def run_what_never_started(history: History) -> None:
    history.run(5, 1, 300, 400)


def run_one_attempt_twice(history: History) -> None:
    history.run(1, 1, 300, 400)


def overlap_by_the_clock(history: History) -> None:
    history.executions[2] = Execution(2, 2, 1002, 199, 400)


def overlap_inside_a_longer_run(history: History) -> None:
    history.records.attempts[1:3] = [AttemptRow(2, 1, 0, 2), AttemptRow(2, 2, 0, 2), AttemptRow(2, 3, 10, 1)]
    history.executions[1:3] = [
        Execution(2, 1, 1, 0, 900),
        Execution(2, 2, 1, 950, 990),
        Execution(2, 3, 1, 800, 999),
    ]


def overlap_with_one_that_never_wrote_its_end(history: History) -> None:
    history.executions[5] = Execution(4, 2, 1004, 150, 250, found_locked=True)


def succeed_without_running(history: History) -> None:
    del history.executions[0]


def succeed_without_finishing(history: History) -> None:
    history.executions[0] = Execution(1, 1, 1001, 100, None)


def block_on_nothing(history: History) -> None:
    history.records.attempts[0:1] = []
    history.executions[0:1] = []
    history.records.live.append(LiveRow(1, 1, 0))


def delay_for_ever(history: History) -> None:
    history.records.attempts[0:1] = []
    history.executions[0:1] = []
    history.records.live.append(LiveRow(1, 2, 0))


def run_nowhere(history: History) -> None:
    history.records.attempts[0:1] = []
    history.records.live.append(LiveRow(1, 4, 1))


def leave_work_undone(history: History) -> None:
    history.records.attempts[0:1] = []
    history.executions[0:1] = []
    history.records.live.append(LiveRow(1, 3, 0))


@pytest.mark.parametrize(
    ("plant", "rules"),
    [
        (lose_an_acknowledged_task, {"lost"}),
        (lose_a_stored_task, {"lost"}),
        (lose_the_end_of_a_task, {"lost"}),
        (invent_a_task, {"invented"}),
        (invent_attempts_without_a_task, {"invented"}),
        (store_one_key_twice, {"repeated-key"}),
        (answer_one_key_with_two_tasks, {"repeated-key"}),
        (answer_with_somebody_elses_task, {"mixed-up"}),
        (end_a_task_twice, {"several-ends", "numbers"}),
        (end_a_task_that_stays_in_the_queue, {"ended-and-live", "unfinished"}),
        (end_in_a_state_that_is_none, {"unknown-end", "wrong-end"}),
        (skip_an_attempt_number, {"numbers"}),
        (repeat_an_attempt_number, {"numbers"}),
        (go_on_after_the_end, {"numbers"}),
        (forget_an_attempt_of_a_live_task, {"numbers", "unfinished"}),
        (exceed_the_attempts_allowed, {"over-limit"}),
        (lose_a_worker_four_times, {"over-limit"}),
        (fail_without_using_the_attempts, {"failed-early"}),
        (call_a_failure_done, {"wrong-end"}),
        (call_a_success_failed, {"wrong-end", "failed-early"}),
        (forget_a_dead_letter, {"dead-letter"}),
        (bury_the_living, {"dead-letter"}),
        (run_without_a_row, {"unauthorised"}),
        (run_what_never_started, {"unauthorised"}),
        (run_one_attempt_twice, {"ran-again"}),
        (overlap_by_the_clock, {"overlap"}),
        (overlap_inside_a_longer_run, {"overlap"}),
        (overlap_with_one_that_never_wrote_its_end, {"overlap"}),
        (succeed_without_running, {"done-without-run"}),
        (succeed_without_finishing, {"done-without-run"}),
        (block_on_nothing, {"stuck", "unfinished"}),
        (delay_for_ever, {"stuck", "unfinished"}),
        (run_nowhere, {"stuck", "unfinished"}),
        (leave_work_undone, {"unfinished"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_violation_is_caught(plant: Callable[[History], None], rules: set[str]) -> None:
    history = healthy()
    plant(history)
    assert history.rules() == rules


# ---- the execution log -------------------------------------------------------------------------------------


def test_an_execution_that_wrote_its_end_has_both_times(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("7 1 start 100 5\n7 2 start 300 6\n7 1 end 200 5\n")
    assert read_executions(log) == ([Execution(7, 1, 5, 100, 200), Execution(7, 2, 6, 300, None)], [])


@pytest.mark.parametrize("line", ["7 1 start 100", "7 1 end 100 5", "7 one start 100 5", "7 1 pause 100 5", "7 1 st"])
def test_a_damaged_execution_log_is_a_violation(tmp_path: Path, line: str) -> None:
    log = tmp_path / "log"
    log.write_text(f"{line}\n")
    assert [violation.rule for violation in read_executions(log)[1]] == ["damaged-log"]


LOGGER = """
import sys
sys.path.insert(0, sys.argv[1])
from execution_log import executing
with executing(sys.argv[2], 7, int(sys.argv[3])):
    print("in", flush=True)
    sys.stdin.readline()
"""


def _begin(log: Path, attempt: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", LOGGER, str(MODULES), str(log), str(attempt)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    return process


def test_two_processes_that_run_one_task_at_once_are_caught_though_neither_wrote_an_end(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    first, second = _begin(log, 1), _begin(log, 2)
    for process in (first, second):
        process.kill()
        process.communicate()
    executions, damaged = read_executions(log)
    assert [(one.attempt, one.ended_ns, one.found_locked) for one in executions] == [
        (1, None, False),
        (2, None, True),
    ]
    assert damaged == []


def test_a_killed_process_is_not_in_the_way_of_the_next(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = _begin(log, 1)
    first.kill()
    first.communicate()
    second = _begin(log, 2)
    second.communicate("go on\n")
    executions, damaged = read_executions(log)
    assert [(one.attempt, one.ended_ns is None, one.found_locked) for one in executions] == [
        (1, True, False), (2, False, False),
    ]  # fmt: skip
    assert damaged == []


# ---- rows of a real database -------------------------------------------------------------------------------


def test_the_rows_of_a_real_database_are_judged(database: str) -> None:
    async def plant() -> Records:
        connection = await asyncpg.connect(database)
        await connection.execute(
            """insert into tasks (id, tenant, user_name, pool, kind, name, lane, priority, tolerance_ms,
                    tolerance_given, start_by, tier, shape, scheduling, server, cap_ms, attempts, backoff_ms,
                    backoff_limit_ms, idempotency_key, upstream, spec)
                select id, 1, 'x', 1, 3, 'x', 1, 0, 1, false, now(), 'basic', 1, 1, 1, 1, 1, 1, 1, key, 1,
                    '{}'
                from (values (1, 'one'), (2, 'two'), (3, 'two')) as given (id, key)"""
        )
        await connection.execute(
            """insert into attempts (task, number, tenant, state, outcome)
                values (1, 1, 1, 10, 1), (1, 3, 1, 12, 4), (2, 1, 1, 11, 2)"""
        )
        await connection.execute(
            """insert into queue (id, pool, tenant, lane, urgency, start_by, cap_ms, shape, work, state,
                    attempts) values (3, 1, 1, 1, 0, now(), 1, 1, 1, 1, 1)"""
        )
        await connection.close()
        return await read_records(database)

    clients = ClientLog()
    clients.attempt("one")
    clients.acknowledge("one", 1)
    clients.attempt("two")
    found = judge(asyncio.run(plant()), clients, [])
    assert {(violation.rule, violation.task) for violation in found} == {
        ("repeated-key", None), ("several-ends", 1), ("numbers", 1), ("dead-letter", 2),
        ("done-without-run", 1), ("stuck", 3), ("unfinished", 3),
    }  # fmt: skip


# ---- what is left on the machine ---------------------------------------------------------------------------


def test_a_process_a_cgroup_and_a_scratch_folder_left_behind_are_found(tmp_path: Path) -> None:
    data = tmp_path / "node-0"
    (data / "work" / "17-1").mkdir(parents=True)
    (data / "agent.lock").touch()
    marked = subprocess.Popen(["sleep", "60"], env={**os.environ, "ROTA_WORKDIR": f"{data}/work/17-1"})
    named = subprocess.Popen(["tail", "-f", f"{data}/agent.lock"], stderr=subprocess.DEVNULL)
    cgroup = _plant_cgroup(data)
    try:
        found = leftovers([data])
    finally:
        for process in (marked, named):
            process.kill()
            process.wait()
        if cgroup is not None:
            cgroup.rmdir()
    assert [violation.rule for violation in found].count("leftover-process") == 2
    assert {violation.rule for violation in found} == {"leftover-process", "leftover-scratch"} | (
        {"leftover-cgroup"} if cgroup else set()
    )
    (data / "work" / "17-1").rmdir()
    assert leftovers_after([data]) == []


def _plant_cgroup(data: Path) -> Path | None:
    """None where this machine lets us make none."""
    name = "rota-" + hashlib.blake2b(os.fsencode(os.path.realpath(data)), digest_size=6).hexdigest()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.startswith("cgroup2 ") and os.access(fields.split()[4], os.W_OK):
            path = Path(fields.split()[4]) / name
            path.mkdir()
            return path
    return None
