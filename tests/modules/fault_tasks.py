"""Functions that fault tests run as tasks. Each writes the execution log, for a checker to judge."""

from __future__ import annotations

import os
import signal
import time

from execution_log import executing

from rota.execute.child.context import current


def work(log: str, seconds: float = 0.0, failures: int = 0, later_seconds: float | None = None) -> int:
    """Takes `seconds` (`later_seconds` after the first attempt), and fails in its first `failures` attempts."""
    task = current()
    takes = seconds if task.attempt == 1 or later_seconds is None else later_seconds
    with executing(log, task.task_id, task.attempt):
        if takes:
            time.sleep(takes)
        if task.attempt <= failures:
            raise ValueError(f"attempt {task.attempt} was told to fail")
    return task.attempt


def end_its_agent(log: str) -> None:
    """Poison: kills the agent of the node it runs on. Its parent is the keeper, whose parent is the agent."""
    task = current()
    with executing(log, task.task_id, task.attempt):
        os.kill(_parent_of(os.getppid()), signal.SIGKILL)
        time.sleep(60)


def _parent_of(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])
