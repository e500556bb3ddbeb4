"""One long random history of the core, from a seed, as one line of text. Run as a program under several hash seeds."""

from __future__ import annotations

import hashlib
import random
import sys

from rota.decide.core import Core
from rota.decide.messages import (
    AttemptEnded,
    Decision,
    LaneKnown,
    NodeClosed,
    NodeJoined,
    NodeLeft,
    NodeOpened,
    PolicyKnown,
    ShapeKnown,
    SharesKnown,
    Start,
    TasksGone,
    TasksReady,
    TenantKnown,
)
from rota.decide.policy import Policy
from rota.model.queue import ReadyTask
from rota.model.resources import Resources, Shape

ZONES = ("a", "b", "c")
SECOND_US = 1_000_000
POLICIES = (Policy(), Policy(peak_ppm=500_000, gain_us=0), Policy(pool_running_limit=12, preempt_burst=2))


def play(seed: int, steps: int = 200) -> str:
    """A digest of every decision taken and of the state at the end."""
    chance = random.Random(seed)
    core = Core()
    decided = hashlib.sha256()
    _learn(core)
    now_us = tasks = 0
    for _ in range(steps):
        now_us += chance.choice([0, 1, SECOND_US, 90 * SECOND_US])
        match chance.randrange(11):
            case 0 | 1:
                custom = {f"license-{number}": 2 for number in range(3)}
                cpus = chance.choice([2000, 8000])
                capacity = Resources(cpu_milli=cpus, memory_bytes=cpus, gpus=chance.randrange(4), custom=custom)
                zone = {"zone": chance.choice(ZONES)}
                core.apply(NodeJoined(chance.randrange(8), capacity, zone, chance.random() < 0.1), now_us)
            case 2:
                node = chance.randrange(8)
                core.apply(chance.choice((NodeLeft(node), NodeClosed(node), NodeOpened(node))), now_us)
            case 3 | 4 | 5:
                batch = [_task(chance, tasks + number, now_us) for number in range(1, chance.randrange(2, 20))]
                tasks += len(batch)
                core.apply(TasksReady(batch), now_us)
            case 6:
                core.apply(TasksGone([chance.randrange(1, tasks + 2)]), now_us)
            case 7 | 8:
                for task in [task for task in core.state.running if chance.random() < 0.5]:
                    core.apply(AttemptEnded(task, chance.choice([None, 500, 900_000])), now_us)
            case 9:
                core.apply(LaneKnown(chance.randrange(2, 5), chance.randrange(1, 3), chance.random() < 0.3), now_us)
            case 10:
                core.apply(PolicyKnown(chance.choice(POLICIES)), now_us)
        for decision in core.plan(now_us, chance.choice([3, 1000])):
            decided.update(_said(decision).encode())
    core.state.check()
    decided.update(repr(core.state.digest()).encode())
    decided.update(repr(core.shares(now_us)).encode())
    return decided.hexdigest()


def _learn(core: Core) -> None:
    for number in range(8):
        demand = Resources(
            cpu_milli=500 * (number + 1),
            memory_bytes=100 * number,
            gpus=number % 2,
            gpu_milli=300 if number % 4 == 2 else 0,
            custom={f"license-{number % 3}": number % 2},
        )
        core.apply(ShapeKnown(number, Shape(demand, {"zone": ZONES[number % 3]} if number > 4 else {})), 0)
    for tenant in range(5):
        core.apply(TenantKnown(tenant, 1 + tenant % 2, 8000 if tenant == 4 else None, None, urgent_ppm=200_000), 0)
    core.apply(SharesKnown({tenant: 10**9 * tenant for tenant in range(5)}, 0), 0)


def _task(chance: random.Random, number: int, now_us: int) -> ReadyTask:
    key = chance.choice([None, None, "k1", "k2"])
    return ReadyTask(
        number,
        0,
        chance.randrange(5),
        chance.randrange(5),
        chance.randrange(-2, 3),
        now_us + chance.choice([0, 5, 3600]) * SECOND_US,
        chance.choice([1000, 60_000, 36_000_000]),
        chance.randrange(8),
        chance.randrange(4),
        key,
        2,
        chance.random() < 0.5,
        chance.choice([None, 1, 2]),
    )


def _said(decision: Decision) -> str:
    if isinstance(decision, Start):
        return f"{decision.task.id}@{decision.node}{decision.behind}{decision.devices};"
    return f"{decision.task}!{decision.node}>{decision.for_task};"


if __name__ == "__main__":
    sys.stdout.write(" ".join(play(seed) for seed in range(3)))
