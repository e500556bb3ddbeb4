"""Draws a task's life from the table of legal transitions: docs/lifecycle.md is made here, so it can't be out of date.

    python -m rota.model.lifecycle > docs/lifecycle.md

A test compares the file with what `page` gives.
"""

from __future__ import annotations

import sys

from rota.model.task import STATUS, TERMINAL, TRANSITIONS, State

FIRST = (State.BLOCKED, State.DELAYED, State.READY)  # what admission makes of a task

MEANING: dict[State, str] = {
    State.BLOCKED: "waits for other tasks",
    State.DELAYED: "not before a time: asked for, or backing off after a failed attempt",
    State.READY: "may start as soon as there is room",
    State.RUNNING: "authorised on a node",
    State.PAUSED: "held back by its owner",
    State.DONE: "an attempt succeeded",
    State.FAILED: "used up its attempts: a dead letter",
    State.CANCELLED: "its owner wanted it no more",
    State.SKIPPED: "a task it depends on did not end as required",
    State.EXPIRED: "dropped at its start-by time, by the client's choice",
}


def diagram() -> str:
    """The table as a Mermaid state diagram, in the order of the states."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state.label}" for state in FIRST]
    lines += [
        f"    {before.label} --> {after.label}" for before in State for after in State if after in TRANSITIONS[before]
    ]
    lines += [f"    {state.label} --> [*]" for state in TERMINAL]
    return "\n".join(lines)


def page() -> str:
    """The whole of docs/lifecycle.md."""
    rows = "\n".join(f"| `{state.label}` | {STATUS[state]} | {MEANING[state]} |" for state in State)
    return f"""# A task's life

Made from the table in `src/rota/model/task.py` by `python -m rota.model.lifecycle > docs/lifecycle.md`.
Whatever changes a task's state obeys this table; in tests a database trigger refuses everything else.

```mermaid
{diagram()}
```

| state | status | meaning |
|---|---|---|
{rows}
"""


if __name__ == "__main__":
    sys.stdout.write(page())
