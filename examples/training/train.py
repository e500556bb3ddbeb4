"""A training loop that can be interrupted at any moment and repeats no finished epoch.

It fits a line to noisy points by gradient descent, and keeps the weights and the epoch in the folder ROTA_CHECKPOINT.
Rota stores that folder when the task is preempted, and whenever it contains a file `.save`; the next attempt gets the
folder back, on any node. Needs only Python.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ.get("ROTA_CHECKPOINT", "."))
STATE = FOLDER / "state.json"


def load() -> dict[str, float]:
    if STATE.exists():
        return json.loads(STATE.read_text())
    return {"epoch": 0, "slope": 0.0, "offset": 0.0}


def save(state: dict[str, float]) -> None:
    """Replaces the file in one step: a reader finds either the epoch before or this one."""
    new = STATE.with_suffix(".new")
    new.write_text(json.dumps(state))
    new.replace(STATE)
    (FOLDER / ".save").touch()  # asks Rota to store the folder now; waiting for it is not needed


def train_one_epoch(state: dict[str, float], points: list[tuple[float, float]], seconds: float) -> None:
    for x, y in points:
        wrong = state["slope"] * x + state["offset"] - y
        state["slope"] -= 0.2 * wrong * x
        state["offset"] -= 0.2 * wrong
    time.sleep(seconds)  # real training takes longer


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--epochs", type=int, default=10)
    options.add_argument("--seconds-per-epoch", type=float, default=1.0)
    chosen = options.parse_args()
    chance = random.Random(7)
    points = [(x / 50, 3 * x / 50 + 1 + chance.gauss(0, 0.05)) for x in range(50)]
    state = load()
    if state["epoch"]:
        print(f"continues after epoch {state['epoch']}", flush=True)
    while state["epoch"] < chosen.epochs:
        train_one_epoch(state, points, chosen.seconds_per_epoch)
        state["epoch"] += 1
        save(state)
        print(f"epoch {state['epoch']} finished", flush=True)
        with open(os.environ.get("ROTA_PROGRESS", os.devnull), "a") as progress:
            progress.write(f"{state['epoch']}/{chosen.epochs} epoch {state['epoch']}\n")
    with open(os.environ.get("ROTA_RESULT", os.devnull), "w") as result:
        json.dump(state, result)


if __name__ == "__main__":
    sys.exit(main())
