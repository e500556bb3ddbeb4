"""What may stand behind the question mark, route by route, for the OpenAPI document. The routes themselves read and
judge it (`requests.py`); a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.api.requests import MOST_LISTED
from rota.model.task import State, Status

_TEXT: dict[str, Any] = {"type": "string"}
_TRUTH: dict[str, Any] = {"type": "boolean"}
_WHEN: dict[str, Any] = {"type": "string", "examples": ["10m", "2030-01-31T08:00:00Z"]}
_TAG: dict[str, Any] = {"type": "string", "pattern": "^[^:]+:.*$", "examples": ["team:ml"]}


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    schema: dict[str, Any]
    description: str

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name, "in": "query", "required": False, "schema": self.schema, "description": self.description,
        }  # fmt: skip


def _number(least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


_LIMIT = Parameter("limit", _number(1, MOST_LISTED), "At most so many; 50 unless told.")
_CURSOR = Parameter("cursor", _TEXT, "The `next` of the page before.")
_POOL = Parameter("pool", _TEXT, "The pool's name; `default` unless told.")
_NAME = Parameter("name", _TEXT, "A name, for those who look at lists.")

QUERY: dict[tuple[str, str], tuple[Parameter, ...]] = {
    ("get", "/v1/tasks"): (
        Parameter("state", _TEXT, f"One or several with commas: {', '.join(s.label for s in State)}."),
        Parameter("status", {"type": "string", "enum": [s.value for s in Status]}, "Of states, as people say it."),
        Parameter("name", _TEXT, "Exactly this name."),
        Parameter("tag", _TAG, "name:value."),
        Parameter("schedule", _TEXT, "The schedule that made it."),
        Parameter("graph", _TEXT, "The graph it is part of, by its id."),
        Parameter("worker", _TEXT, "The node it runs or ended on."),
        Parameter("user", _TEXT, "Who submitted it."),
        Parameter("since", _WHEN, "Submitted since: how long ago, or a time with a zone."),
        Parameter("until", _WHEN, "Submitted before."),
        Parameter("tenant", _TEXT, "Another tenant's; for administrators."),
        Parameter(
            "fold",
            {"type": "string", "enum": ["arrays"]},
            "Each array as one, unless a state, tag, graph or worker is asked for.",
        ),
        _LIMIT,
        _CURSOR,
    ),
    ("get", "/v1/tasks/{task}"): (
        Parameter(
            "wait", {"type": "number", "minimum": 0, "maximum": 30}, "Answer when it has ended, or after so long."
        ),
    ),
    ("get", "/v1/tasks/{task}/log"): (
        Parameter("attempt", _number(0, 32_767), "This attempt; the latest unless told."),
        Parameter("stream", {"type": "string", "enum": ["stdout", "stderr"]}, "One of the two."),
        Parameter("since", _WHEN, "Only what came since."),
        Parameter("tail", _number(0, 1_000_000), "The last so many lines."),
        Parameter("after", _number(0, 2**31 - 1), "After this chunk: where a follower was."),
        Parameter("follow", _TRUTH, "As it comes, as JSON lines, until the task has ended."),
        Parameter("progress", _TRUTH, "With `follow`: also how far the task says it is."),
    ),
    ("get", "/v1/events"): (
        Parameter("type", _TEXT, "One or several with commas: started, done, failed, …"),
        Parameter("task", _TEXT, "Of this task."),
        Parameter("schedule", _TEXT, "Of this schedule."),
        Parameter("name", _TEXT, "Of tasks with this name."),
        Parameter("tag", _TAG, "Of tasks with this tag."),
        Parameter("after", _TEXT, "After the event with this id."),
        Parameter("since", _WHEN, "Since then, if there is no `after`."),
        Parameter("follow", _TRUTH, "Go on as things happen, as server-sent events."),
    ),
    ("get", "/v1/webhooks/{webhook}/deliveries"): (_LIMIT, _CURSOR),
    ("get", "/v1/dead"): (
        Parameter("name", _TEXT, "Exactly this name."),
        Parameter("tag", _TAG, "name:value."),
        Parameter("schedule", _TEXT, "The schedule that made it."),
        Parameter("graph", _TEXT, "The graph it is part of, by its id."),
        Parameter("reason", _TEXT, "Words anywhere in the reason."),
        Parameter("over", _TEXT, "The limit it went over: cap, memory, …"),
        Parameter("since", _WHEN, "Dead since: how long ago, or a time with a zone."),
        Parameter("until", _WHEN, "Dead before."),
        Parameter("tenant", _TEXT, "Another tenant's; for administrators."),
        _LIMIT,
        _CURSOR,
    ),
    ("get", "/v1/nodes"): (Parameter("all", _TRUTH, "Also nodes that have been away for more than a day."),),
    ("get", "/v1/artifacts"): (_LIMIT, _CURSOR),
    ("post", "/v1/artifacts"): (_NAME,),
    ("get", "/v1/graphs"): (
        Parameter("name", _TEXT, "Exactly this name."),
        Parameter("schedule", _TEXT, "Runs of this schedule."),
        Parameter("user", _TEXT, "Who submitted it."),
        Parameter("since", _WHEN, "Submitted since: how long ago, or a time with a zone."),
        Parameter("until", _WHEN, "Submitted before."),
        _LIMIT,
        _CURSOR,
    ),
    ("get", "/v1/graphs/{graph}"): (
        Parameter("ancestors_of", _TEXT, "Only what this task of it waits for."),
        Parameter("descendants_of", _TEXT, "Only what waits for this task of it."),
    ),
    ("get", "/v1/schedules"): (_LIMIT, Parameter("after", _TEXT, "The last name of the page before.")),
    ("get", "/v1/schedules/{name}/next"): (Parameter("n", _number(1, 1_000), "How many; 10 unless told."),),
    ("get", "/v1/schedules/{name}/history"): (
        _LIMIT,
        Parameter("before", {"type": "string", "format": "date-time"}, "The last instant of the page before."),
    ),
    ("get", "/v1/keys"): (_LIMIT,),
    ("get", "/v1/worker/leader"): (_POOL,),
    ("put", "/v1/worker/attempts/{task}/{attempt}/objects/{purpose}"): (
        _NAME,
        Parameter("damaged", {"type": "string"}, "Checkpoints that need not be kept when this one is: 3,4."),
    ),
    ("get", "/v1/worker/attempts/{task}/{attempt}/objects"): (
        Parameter("purpose", {"type": "string", "enum": ["output", "checkpoint", "log"]}, "Only these."),
    ),
}
