"""`schedule:` in a manifest: when what the file describes is run again and again. Checked here, without any server.

The fields are those of `ScheduleRequest`, whose own rules judge them: what is wrong here would be refused there too.
The schedule is called by its `name`, else as the graph or the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from rota.client.manifest.fields import Note
from rota.model.errors import Fault, FaultList
from rota.model.request.structure import derived, structure_faults
from rota.model.request.task_request import TaskRequest
from rota.model.schedule.checks import check_name, faults_alone
from rota.model.schedule.request import ScheduleRequest
from rota.model.schedule.schedule import Missed, Overlap

# What runs is said by the rest of the file; the others are for edits.
ScheduleSection = derived(
    ScheduleRequest, name="Schedule", without=("task", "tasks", "graph", "next_at", "version")
)  # fmt: skip

SCHEDULE_NOTES: dict[str, Note] = {
    "name": Note("What the schedule is called; else as the graph or the task.", ("backup",)),
    "at": Note("Once: a time; without a zone of its own, in `zone`.", ("2030-01-31T09:00:00Z",)),
    "hourly": Note("At this minute of every hour.", (15,)),
    "daily": Note("Every day at this time.", ("02:30",)),
    "weekly": Note("On these days at this time.", ("mon,thu@08:00",)),
    "monthly": Note("On this day of every month; a day that a month lacks is its last.", ("1@00:00",)),
    "annually": Note("On this date of every year.", ("01-31@00:00",)),
    "cron": Note("Five fields, as in Debian's cron, or @daily, ….", ("*/15 9-17 * * 1-5",)),
    "every": Note("Elapsed time from one run to the next: seconds, or a text such as PT3H, 90s.", ("PT3H",)),
    "zone": Note("An IANA time zone; UTC unless given.", ("Europe/Berlin",)),
    "anchor": Note("From when `every` counts; else from when the schedule is made.", ("2030-01-01T00:00:00Z",)),
    "missed": Note("Runs missed while nothing could start them: skip them, run once, or all.", (), tuple(Missed)),
    "missed_limit": Note("How many of `missed: all`.", (100,)),
    "overlap": Note(
        "When the last run has not ended: allow, skip, queue behind it, or replace it.", (), tuple(Overlap)
    ),
    "jitter": Note("Starts are spread over so long.", ("5m",)),
    "at_most": Note("So many of its tasks at once.", (3,)),
    "ends_at": Note("No runs after this.", ("2031-01-01T00:00:00Z",)),
    "max_runs": Note("No more runs than these.", (10,)),
    "paused": Note("Add it, but don't start.", (True,)),
}


def read_schedule(
    section: Any, tasks: Sequence[TaskRequest], *, is_graph: bool, name: str | None, faults: list[Fault]
) -> ScheduleRequest | None:
    """The section with the name it goes by; None when something is wrong, which is added to `faults`.

    `tasks` may be empty, where they are wrong themselves; `name` is what the graph or task is called.
    """
    shape = structure_faults(section, ScheduleSection)
    if shape:
        faults += [Fault(f"/schedule{fault.pointer}", fault.code, fault.detail) for fault in shape]
        return None
    request = msgspec.convert(section, ScheduleRequest)
    found = FaultList()
    if request.name is UNSET and name is not None:
        request.name = name
    check_name(request.name, found)
    work = {} if not tasks else {"tasks": list(tasks)} if is_graph else {"task": tasks[0]}
    wrong = [*found.faults, *faults_alone(msgspec.structs.replace(request, **work), called=name or "")]
    faults += [Fault(pointer_in_file(fault.pointer), fault.code, fault.detail) for fault in wrong]
    return None if wrong else request


def pointer_in_file(pointer: str) -> str:
    """Where a manifest says what a request for its schedule has at `pointer`. Tasks of a graph stay `/tasks/NUMBER`."""
    if pointer == "/graph":
        return "/name"
    if pointer == "/task" or pointer.startswith("/task/"):
        return pointer.removeprefix("/task")
    return pointer if pointer.startswith("/tasks/") else f"/schedule{pointer}"
