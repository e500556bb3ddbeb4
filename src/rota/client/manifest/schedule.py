"""The `schedule:` section of a manifest, checked without a server.

Its fields are those of `ScheduleRequest`, and the rules of admission check them. The schedule has the name of the graph
or the task, unless the section has a `name`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from rota.client.manifest.fields import Note
from rota.model.errors import Fault, FaultList
from rota.model.request.rest import rest_of
from rota.model.request.structure import derived
from rota.model.request.task_request import TaskRequest
from rota.model.schedule.checks import check_name, faults_alone
from rota.model.schedule.request import ScheduleRequest
from rota.model.schedule.schedule import Missed, Overlap

# The rest of the file is the work; `next_at` and `version` are for edits.
_NOT_IN_A_FILE = ("task", "tasks", "graph", "next_at", "version")
ScheduleSection = derived(ScheduleRequest, name="Schedule", without=_NOT_IN_A_FILE)

SCHEDULE_NOTES: dict[str, Note] = {
    "name": Note("The name of the schedule; by default, the name of the graph or the task.", ("backup",)),
    "at": Note("Once, at this time; in `zone` if it has no offset.", ("2030-01-31T09:00:00Z",)),
    "hourly": Note("At this minute of every hour.", (15,)),
    "daily": Note("Every day at this time.", ("02:30",)),
    "weekly": Note("On these days at this time.", ("mon,thu@08:00",)),
    "monthly": Note("On this day of every month; in a shorter month, on its last day.", ("1@00:00",)),
    "annually": Note("On this date of every year.", ("01-31@00:00",)),
    "cron": Note("Five fields, as in Debian's cron, or @daily, ….", ("*/15 9-17 * * 1-5",)),
    "every": Note("The time from one run to the next: seconds, or a text such as PT3H, 90s.", ("PT3H",)),
    "zone": Note("An IANA time zone; UTC unless given.", ("Europe/Berlin",)),
    "anchor": Note(
        "The time from which `every` counts; by default, when the schedule is made.", ("2030-01-01T00:00:00Z",)
    ),
    "missed": Note("Runs missed while no server could start them: skip them, run once, or run all.", (), tuple(Missed)),
    "missed_limit": Note("The most runs that `missed: all` makes.", (100,)),
    "overlap": Note(
        "When the last run has not ended: allow both, skip, queue after it, or replace it.", (), tuple(Overlap)
    ),
    "jitter": Note("Starts are spread over this time.", ("5m",)),
    "at_most": Note("The most of its tasks that run concurrently.", (3,)),
    "ends_at": Note("The time after which there are no runs.", ("2031-01-01T00:00:00Z",)),
    "max_runs": Note("The most runs in all.", (10,)),
    "paused": Note("Make the schedule, but start no runs.", (True,)),
}


def read_schedule(
    section: Any, tasks: Sequence[TaskRequest], *, is_graph: bool, name: str | None, faults: list[Fault]
) -> ScheduleRequest | None:
    """The section with its name; None if it has faults, which are added to `faults`.

    `tasks` is empty if they have faults themselves; `name` is the name of the graph or task.
    """
    rest = rest_of(section, ScheduleSection)
    if rest.value is None:
        faults += [Fault(f"/schedule{fault.pointer}", fault.code, fault.detail) for fault in rest.structure]
        return None
    request = msgspec.convert(msgspec.to_builtins(rest.value), ScheduleRequest)
    name_faults = FaultList()
    if request.name is UNSET and name is not None:
        request.name = name
    check_name(request.name, name_faults)
    work = {} if not tasks else {"tasks": list(tasks)} if is_graph else {"task": tasks[0]}
    wrong = [*name_faults.faults, *faults_alone(msgspec.structs.replace(request, **work), called=name or "")]
    wrong = rest.with_others(wrong)
    faults += [Fault(pointer_in_file(fault.pointer), fault.code, fault.detail) for fault in wrong]
    return None if wrong else request


def pointer_in_file(pointer: str) -> str:
    """The pointer in the file for a pointer in the schedule's request. Tasks of a graph stay `/tasks/NUMBER`."""
    if pointer == "/graph":
        return "/name"
    if pointer == "/task" or pointer.startswith("/task/"):
        return pointer.removeprefix("/task")
    return pointer if pointer.startswith("/tasks/") else f"/schedule{pointer}"
