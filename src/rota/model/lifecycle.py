"""Writes docs/lifecycle.md from the table of legal transitions; a test compares the two.

python -m rota.model.lifecycle > docs/lifecycle.md
"""

from __future__ import annotations

import sys

from rota.model.task import STATUS, TERMINAL, TRANSITIONS, State

FIRST = (State.BLOCKED, State.DELAYED, State.READY)  # the states that admission gives

MEANING: dict[State, str] = {
    State.BLOCKED: "waits for other tasks",
    State.DELAYED: "not before a time: asked for, or backing off after a failed attempt",
    State.READY: "may start as soon as a node has free resources",
    State.RUNNING: "authorised on a node",
    State.PAUSED: "held back by its owner",
    State.DONE: "an attempt succeeded",
    State.FAILED: "used up its attempts: a dead letter",
    State.CANCELLED: "its owner wanted it no more",
    State.SKIPPED: "a task it depends on did not end as required",
    State.EXPIRED: "dropped at its start-by time, by the client's choice",
}


def diagram() -> str:
    """The transitions as a Mermaid state diagram."""
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
