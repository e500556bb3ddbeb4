"""One long random history of the core, from a seed, as one line of text. Run as a program under several hash seeds."""

from __future__ import annotations

import hashlib
import random
import sys

from rota.decide.core import Core
from rota.decide.messages import AttemptEnded, NodeJoined, NodeLeft, ShapeKnown, TasksGone, TasksReady, TenantKnown
from rota.model.queue import ReadyTask
from rota.model.resources import Resources, Shape

ZONES = ("a", "b", "c")


def play(seed: int, steps: int = 120) -> str:
    """A digest of every decision taken and of the state at the end."""
    chance = random.Random(seed)
    core = Core()
    decided = hashlib.sha256()
    for number in range(8):
        demand = Resources(cpu_milli=500 * (number + 1), gpus=number % 2, custom={f"license-{number % 3}": number % 2})
        core.apply(ShapeKnown(number, Shape(demand, {"zone": ZONES[number % 3]} if number > 4 else {})), 0)
    for tenant in range(5):
        core.apply(TenantKnown(tenant, 1, 8000 if tenant == 4 else None, None), 0)
    tasks = 0
    for step in range(steps):
        match chance.randrange(6):
            case 0:
                custom = {f"license-{number}": 2 for number in range(3)}
                capacity = Resources(cpu_milli=chance.choice([2000, 8000]), gpus=1, custom=custom)
                core.apply(NodeJoined(chance.randrange(6), capacity, {"zone": chance.choice(ZONES)}), step)
            case 1:
                core.apply(NodeLeft(chance.randrange(6)), step)
            case 2 | 3:
                batch = []
                for _ in range(chance.randrange(1, 20)):
                    tasks += 1
                    key = chance.choice([None, None, "k1", "k2"])
                    batch.append(
                        ReadyTask(
                            tasks, 0, chance.randrange(5), chance.randrange(4), chance.randrange(-2, 3),
                            chance.randrange(3), 1000, chance.randrange(8), chance.randrange(4), key, 2,
                        )
                    )  # fmt: skip
                core.apply(TasksReady(batch), step)
            case 4:
                core.apply(TasksGone([chance.randrange(1, tasks + 2)]), step)
            case 5:
                for task in [task for task in core.state.running if chance.random() < 0.5]:
                    core.apply(AttemptEnded(task, chance.choice([None, 500, 900_000])), step)
        for start in core.plan(step, chance.choice([3, 1000])):
            decided.update(f"{start.task if isinstance(start.task, int) else start.task.id}@{start.node};".encode())
    core.state.check()
    decided.update(repr(core.state.digest()).encode())
    return decided.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(" ".join(play(seed) for seed in range(3)))
