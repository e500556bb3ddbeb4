"""Whole clusters in virtual time: every invariant at every event, whatever goes wrong, and rest when it heals."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rota import planted
from rota.cli.main import run as rota
from rota.simulate.world import auditor, bugs, known, ledger, limits, timekeeper
from rota.simulate.world.run import run_seed
from rota.simulate.world.swarm import prove, run_swarm

QUICK = (
    "ack-before-commit", "key-stored-after-task", "app-clock-for-expiry", "child-released-twice",
    "ttl-equals-renew-period", "identity-is-host", "anyone-acknowledges", "restart-not-noticed",
    "settlement-not-repeated", "retry-count-reset", "poison-without-cap", "place-never-given-back",
    "cursor-before-runs", "missed-not-recorded", "fold-fired-twice", "paused-pool-goes-on", "hold-claimed-of-all",
)  # fmt: skip


@pytest.mark.timeout(1_800)  # a minute on two free cores; beside other tests it gets a small part of them
def test_a_thousand_worlds_keep_every_promise() -> None:
    swarm = run_swarm(first=1, seeds=1_000, jobs=2, at_most=5)
    failed = [f"rota simulate swarm --replay {o.seed}   # {o.invariant}: {o.what}" for o in swarm.failed]
    assert not failed, "\n".join(failed)
    assert swarm.seeds == 1_000
    assert swarm.repeated == 20
    assert not swarm.never, "never happened, so never tested"


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_noticed(name: str) -> None:
    (proof,) = prove([name], first=1, jobs=1, most_seeds=100)
    assert proof.seeds, f"{name} survived"
    assert proof.invariant != "crash", proof.what


def test_a_seed_tells_the_same_story_under_every_hash_seed() -> None:
    told = [_fingerprints(hash_seed) for hash_seed in ("1", "2")]
    assert told[0] == told[1]
    assert len(told[0].split()) == 8


def _fingerprints(hash_seed: str) -> str:
    code = "from rota.simulate.world.run import run_seed\nfor s in range(40, 48): print(run_seed(s).fingerprint)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    ).stdout  # fmt: skip


def test_a_replay_tells_the_story_and_how_it_ended(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert rota(["simulate", "swarm", "--replay", "1", "--bug", "child-released-twice"]) == 1
    story = capfdbinary.readouterr().out.decode()
    assert "leads pool 1 in epoch" in story
    assert re.search(r"ends after \d+ events: I12 task \d+ is released again", story)


def test_a_failing_swarm_prints_the_command_that_replays_it(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert rota(["simulate", "swarm", "--seeds", "8", "--jobs", "1", "--bug", "ack-before-commit"]) == 1
    assert "rota simulate swarm --replay 1 --bug ack-before-commit" in capfdbinary.readouterr().out.decode()


def test_nothing_is_planted_unless_a_seed_asks_for_it() -> None:
    run_seed(3, bug="retry-count-reset")
    assert frozenset() == planted.ACTIVE


def test_every_switch_in_the_code_is_a_known_bug() -> None:
    source = Path(planted.__file__).parent
    found: set[str] = set()
    for path in source.rglob("*.py"):
        if path.name != "planted.py":
            found |= set(re.findall(r'planted\.has\("([a-z-]+)"\)', path.read_text()))
    assert found <= set(bugs.NAMES)


def test_the_auditor_shares_no_code_with_what_it_watches() -> None:
    for module in (auditor, ledger, limits, known, timekeeper):
        imported = re.findall(r"^(?:from|import) (rota[.\w]*)", Path(str(module.__file__)).read_text(), re.MULTILINE)
        assert set(imported) <= {f"rota.simulate.world.{name}" for name in ("known", "ledger", "limits", "sometimes")}
